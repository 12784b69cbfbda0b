import { once } from 'node:events';
import { Recent } from '../../shared/observability/recent.js';
import type { Core } from '../core.js';
import { createProbeServer, listenForProbes } from './probe-server.js';
import { WorkerReadinessCheck } from './readiness.js';

const CHECK_EVERY_MS = 1_000;

/** `/livez` and `/readyz` of a worker, if WORKER_PORT is set. */
export type Probes = {
  /** Registers the end of readiness. It is called after all other parts, because the last part ends first. */
  addDraining: () => void;
};

/** Registers the listener. It is called before all other parts, so that it responds until they have ended. */
export function probesModule({ config, log, life, shards, database }: Core): Probes {
  const { workerPort, host } = config;
  if (workerPort === null) return { addDraining: () => {} };
  const readiness = new WorkerReadinessCheck({ shards: shards.all, database });
  const recent = new Recent(() => readiness.run(), CHECK_EVERY_MS);
  const server = createProbeServer(
    new Map([
      ['/livez', async () => ({ status: 200, data: { status: 'alive' } })],
      [
        '/readyz',
        async () => {
          const { ready, checks } = await (readiness.draining ? readiness.run() : recent.get());
          return { status: ready ? 200 : 503, data: { status: ready ? 'ready' : 'not_ready', checks } };
        },
      ],
    ]),
  );
  life.add('probes', {
    async start() {
      log.info({ ops_url: await listenForProbes(server, workerPort, host) }, 'the worker responds to probes');
    },
    async stop() {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  });
  return {
    addDraining: () =>
      life.add('readiness', {
        quiet() {
          readiness.draining = true;
        },
      }),
  };
}
