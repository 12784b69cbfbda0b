import type { Worker } from 'bullmq';
import { QUEUE_NAMES, QUEUES, type QueueName } from '../shared/contracts/jobs.js';
import { EngineUnavailable, PostgresBehind } from '../shared/errors/faults.js';
import { settledWithin } from '../shared/observability/settled-within.js';
import { TransferNotOut } from '../shared/projection/write-buckets.js';
import { type JobWorkerEvents, type Processor, retryDelayMs, startJobWorker } from '../shared/queues/job-worker.js';
import type { QueueServer } from '../shared/queues/queues.js';
import type { Core } from './core.js';
import { ForeignHistory, JournalGap } from './persist/continuity.js';
import type { Processors } from './processors.js';
import { sweepRetryMs } from './sweeps/sweeps.js';

/** How often a gap is logged until an operator has repaired it. */
const REPORT_GAP_EVERY_MS = 10_000;
/** Longer than a delivery of a webhook, and shorter than the time that a process has to stop. */
const STOP_LIMIT_MS = 7_000;

/** Adds a BullMQ worker for every queue of every shard. */
export function addQueueWorkers(core: Core, processors: Processors, on: JobWorkerEvents): void {
  const { name: processName, life, queueServers } = core;
  let workers: { worker: Worker; shard: number }[] = [];
  const startAll = <Name extends QueueName>(name: Name) => {
    const { run, concurrency } = processors[name] as { run: Processor<Name>; concurrency: number };
    const retryMs = name === 'sweeps' ? sweepRetryMs : retryDelayMs;
    const servers = QUEUES[name].where === 'home' ? queueServers.slice(0, 1) : queueServers;
    return servers.map((server: QueueServer, shard) => {
      const options = { shard, concurrency, processName, retryDelayMs: retryMs };
      return { worker: startJobWorker(name, run, server, options, on), shard };
    });
  };
  life.add('queue workers', {
    start() {
      workers = QUEUE_NAMES.flatMap((name) => startAll(name));
    },
    // A worker of a Redis that is away would wait for it, so its jobs are left to the next one.
    async stop() {
      const closing = workers.map(({ worker, shard }) => worker.close(!core.shards.all[shard]?.gate.isOpen));
      await settledWithin(Promise.all(closing), STOP_LIMIT_MS);
    },
  });
}

/** @param job what the job does; left out = the work of a queue was done without a job, or a job was not added */
export type FailureReporter = (queue: string, error: unknown, job?: string) => void;

/** Returns the function that counts and logs the failures of jobs. */
export function failureReporter({ metrics, shards, log: processLog }: Core): FailureReporter {
  let gapReportedAt = Number.NEGATIVE_INFINITY;
  return (queue, error, job) => {
    metrics.jobFailures.inc({ queue });
    const persists = queue === 'persist' || queue.startsWith('persist-');
    const message = persists ? 'persisting failed; it will be retried' : 'a job failed and will run again';
    const shard = shardOf(queue);
    const log = shards.all[shard]?.log ?? processLog;
    const about = { queue, ...(job === undefined ? {} : { job }) };
    if (error instanceof JournalGap || error instanceof PostgresBehind) {
      metrics.journalGap.set({ shard }, 1);
      if (performance.now() - gapReportedAt < REPORT_GAP_EVERY_MS) return;
      gapReportedAt = performance.now();
      log.error(
        { ...about, reason: error.message },
        'Postgres lacks journal entries that it had committed, so nothing is persisted. ' +
          'The sale goes on. Run: npm run reconcile -- --after-restore --dry-run',
      );
    } else if (error instanceof EngineUnavailable) {
      log.warn({ ...about, engine: error.engine, reason: error.message }, message);
    } else if (error instanceof TransferNotOut) {
      log.warn({ ...about, reason: error.message }, 'an entry waits for the journal of another shard');
    } else if (error instanceof ForeignHistory) {
      log.warn({ ...about, reason: error.message }, 'the journal of another history is not persisted');
    } else if (persists) {
      log.error({ ...about, err: error }, message);
    } else {
      log.warn({ ...about, err: error }, message);
    }
  };
}

function shardOf(queue: string): number {
  const name = QUEUE_NAMES.find((one) => queue.startsWith(`${one}-`));
  return name === undefined ? 0 : Number(queue.slice(name.length + 1));
}
