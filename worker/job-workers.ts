import type { Worker } from 'bullmq';
import { QUEUE_NAMES, type QueueName, type SweepName } from '../shared/contracts/jobs.js';
import { EngineUnavailable } from '../shared/errors/faults.js';
import { type Processor, startJobWorker } from '../shared/queues/queues.js';
import type { Core } from './core.js';
import type { Processors } from './processors.js';
import { SweepTurns } from './sweeps/sweep-turns.js';
import { type Sweep, Sweeps } from './sweeps/sweeps.js';

const RETRY_JOBS_EVERY_MS = 2_000;

/** Adds a job worker for every queue. */
export function addJobWorkers(core: Core, processors: Processors): void {
  const { jobs, life, log } = core;
  const on = {
    failed: onFailed(core),
    error: (queue: QueueName, error: Error) =>
      log.warn({ queue, reason: error.message }, 'a job worker reported an error'),
  };
  let workers: Worker[] = [];
  life.add('job workers', {
    start() {
      workers = QUEUE_NAMES.map((queue) => {
        const { run, concurrency } = processors[queue];
        return startJobWorker(queue, run as Processor<typeof queue>, jobs, { concurrency }, on);
      });
    },
    stop: async () => void (await Promise.all(workers.map((worker) => worker.close()))),
  });
}

/** Adds the sweeps. Each runs at its interval, in one worker at a time. */
export function addSweeps(core: Core, table: { readonly [Name in SweepName]: Sweep }): void {
  const sweeps = new Sweeps<SweepName>({
    sweeps: table,
    turns: new SweepTurns(core.commands),
    inService: () => core.history.gate.isOpen,
    onFailed: onFailed(core),
  });
  core.life.add('sweeps', { start: () => sweeps.start(), quiet: () => sweeps.stop() });
}

/** Retries at once the jobs that an outage has delayed. */
export function addJobRetries({ life, log, queues }: Core): void {
  let retrying: NodeJS.Timeout | undefined;
  life.add('retries of jobs', {
    start() {
      retrying = setInterval(() => {
        queues.retryNow().catch((error: Error) => log.warn({ reason: error.message }, 'jobs could not be retried'));
      }, RETRY_JOBS_EVERY_MS);
    },
    quiet: () => clearInterval(retrying),
  });
}

function onFailed({ metrics, log }: Core): (queue: QueueName | SweepName, error: Error) => void {
  return (queue, error) => {
    metrics.jobFailures.inc({ queue });
    const why = error instanceof EngineUnavailable ? { engine: error.engine, reason: error.message } : { err: error };
    log.warn({ queue, ...why }, 'a job failed and will run again');
  };
}
