import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import type { Log } from '../shared/observability/log.js';
import type { Stoppable } from '../shared/observability/shutdown.js';

/** A process that dies at once, again and again, is started again with this pause. */
const RESTART_PAUSE_MS = 500;

/**
 * Runs `count` API processes that share the port; one that dies is replaced. Each is an API of its own: what they share
 * lies in Redis.
 */
export function startApiProcesses(count: number, log: Log): Stoppable {
  let stopping = false;
  const start = () => {
    const worker = cluster.fork();
    worker.on('exit', (code, signal) => {
      if (stopping) return;
      log.error({ pid: worker.process.pid, code, signal }, 'an API process died and is replaced');
      setTimeout(() => {
        if (!stopping) start();
      }, RESTART_PAUSE_MS);
    });
  };
  for (let i = 0; i < count; i += 1) start();
  return {
    quiet() {
      stopping = true;
    },
    async stop() {
      const running = Object.values(cluster.workers ?? {}).filter((worker): worker is Worker => worker !== undefined);
      await Promise.all(
        running.map((worker) => {
          const ended = once(worker, 'exit');
          worker.process.kill('SIGTERM');
          return ended;
        }),
      );
    },
  };
}
