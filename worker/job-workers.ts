import type { Worker } from 'bullmq';
import { QUEUE_NAMES, type QueueName, type SweepName } from '../shared/contracts/jobs.js';
import { EngineUnavailable } from '../shared/errors/faults.js';
import { type Processor, startJobWorker } from '../shared/queues/queues.js';
import type { Core, WorkerShard } from './core.js';
import type { Processors } from './processors.js';
import { SweepTurns } from './sweeps/sweep-turns.js';
import { type Sweep, Sweeps } from './sweeps/sweeps.js';

const RETRY_JOBS_EVERY_MS = 2_000;

/** Adds a job worker for every queue. */
export function addJobWorkers(core: Core, processors: Processors): void {
  const { jobs, life, log, shards } = core;
  const shardPrefix = shards.home.redis.prefix;
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
        return startJobWorker(queue, run as Processor<typeof queue>, jobs, { concurrency, shardPrefix }, on);
      });
    },
    stop: async () => void (await Promise.all(workers.map((worker) => worker.close()))),
  });
}

/**
 * Adds the sweeps of a shard, which run while it is in service. Each runs at its interval, in one worker at a time.
 * @param shard that the sweeps are about, or the home shard
 */
export function addSweeps<Name extends SweepName>(
  core: Core,
  shard: WorkerShard,
  table: { readonly [Key in Name]: Sweep },
): void {
  const sweeps = new Sweeps<Name>({
    sweeps: table,
    turns: new SweepTurns(shard.commands),
    inService: () => shard.gate.isOpen,
    onFailed: onFailed(core),
  });
  core.life.add(`sweeps ${shard.index}`, { start: () => sweeps.start(), quiet: () => sweeps.stop() });
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
