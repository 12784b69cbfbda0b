import { once } from 'node:events';
import { LIMITS } from '../../shared/config/limits.js';
import { Recent } from '../../shared/observability/recent.js';
import type { Core } from '../core.js';
import { createProbeServer, listenForProbes } from './probe-server.js';
import { WorkerReadinessCheck } from './readiness.js';

const CHECK_EVERY_MS = 1_000;
const METRICS_EVERY_MS = 1_000;
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** `/livez`, `/readyz` and `/metrics` of a worker, if WORKER_PORT is set. */
export type Probes = {
  /** Registers the end of readiness. It is called after all other parts, because the last part ends first. */
  addDraining: () => void;
};

/** Registers the listener. It is called before all other parts, so that it responds until they have ended. */
export function probesModule({ config, log, life, metrics, shards, database, queues, clock }: Core): Probes {
  const { workerPort, host } = config;
  if (workerPort === null) return { addDraining: () => {} };
  const readiness = new WorkerReadinessCheck({
    ...{ shards: shards.all, database, queues, clock },
    queueJobs: LIMITS.jobs.queueJobs,
  });
  const recent = new Recent(() => readiness.run(), CHECK_EVERY_MS);
  // Computed at most once a second for all callers, as that of the APIs.
  const metricsText = new Recent(() => metrics.ownText(), METRICS_EVERY_MS);
  const server = createProbeServer(
    new Map([
      ['/livez', async () => json(200, { status: 'alive' })],
      [
        '/readyz',
        async () => {
          const { ready, checks, degraded } = await (readiness.draining ? readiness.run() : recent.get());
          return json(ready ? 200 : 503, { status: ready ? 'ready' : 'not_ready', checks, degraded });
        },
      ],
      ['/metrics', async () => ({ status: 200, type: METRICS_TYPE, text: await metricsText.get() })],
    ]),
    (problem) => log.info(problem, 'a request was refused'),
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

const json = (status: number, data: object) => ({ status, type: 'application/json', text: JSON.stringify({ data }) });
