import type { Part } from './lifecycle.js';
import type { Metrics } from './metrics.js';
import { runEvery } from './shared-interval.js';

const EVERY_MS = 5_000;

type Board = {
  post(process: string, metrics: object[], nowMs: number): Promise<void>;
  remove(process: string): Promise<void>;
};

/**
 * Posts the metrics of a process to Redis, where every process can read them, and removes them when the process stops.
 */
export function postMetrics(process: string, metrics: Metrics, store: Board, nowMs: () => number): Part {
  let end = () => {};
  return {
    start() {
      end = runEvery(EVERY_MS, () => {
        metrics
          .snapshot()
          .then((snapshot) => store.post(process, snapshot, nowMs()))
          .catch(() => {
            // Redis is away. The next post contains everything.
          });
      });
    },
    async stop() {
      end();
      await store.remove(process).catch(() => {});
    },
  };
}
