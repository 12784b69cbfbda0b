import type { Part } from './lifecycle.js';
import type { Metrics } from './metrics.js';

const EVERY_MS = 5_000;

type Board = {
  post(process: string, metrics: object[], nowMs: number): Promise<void>;
  remove(process: string): Promise<void>;
};

/** Posts what a process counts where every process can read it, and removes it when the process stops. */
export function postMetrics(process: string, metrics: Metrics, store: Board, nowMs: () => number): Part {
  let timer: NodeJS.Timeout | undefined;
  return {
    start() {
      timer = setInterval(() => {
        metrics
          .snapshot()
          .then((snapshot) => store.post(process, snapshot, nowMs()))
          .catch(() => {
            // Redis is away; the next post has everything.
          });
      }, EVERY_MS);
    },
    async stop() {
      clearInterval(timer);
      await store.remove(process).catch(() => {});
    },
  };
}
