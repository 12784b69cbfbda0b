import { type Job, type JobsOptions, Queue, Worker, type WorkerOptions } from 'bullmq';
import type { Redis } from 'ioredis';
import { type Jobs, QUEUE_NAMES, type QueueName } from '../contracts/jobs.js';
import { bullmqPrefix } from '../redis/keys.js';

/**
 * A job is retried until it succeeds. The number of attempts is unlimited, and the pause between them stays short, so
 * that work resumes within seconds after an outage of Redis or Postgres.
 */
const UNTIL_DONE: JobsOptions = {
  attempts: Number.MAX_SAFE_INTEGER,
  backoff: { type: 'untilDone' },
  removeOnComplete: true,
  removeOnFail: { count: 1_000 },
};
const RETRY_MAX_MS = 1_000;
/** How long a job worker pauses when Redis is full. */
const REST_MS = 1_000;
/** Sweeps that earlier versions scheduled as repeated jobs. */
const EARLIER_INTERVALS = [
  'expire',
  'tend',
  'schedule',
  'reconcile',
  'publish',
  'codes',
  'prune',
  'velocity',
  'archive',
] as const;

/** The pause before an attempt: doubles from 50 ms up to one second. */
export const retryDelayMs = (attempt: number): number => Math.min(RETRY_MAX_MS, 25 * 2 ** Math.min(attempt, 10));

/** Adds jobs, typed by queue. */
export class JobQueues {
  readonly #queues: { [Name in QueueName]: Queue };
  readonly #make: (name: string) => Queue;

  /** @param shardPrefix of the home shard, to whose server the connection goes */
  constructor(connection: Redis, shardPrefix: string, onError: (queue: QueueName, error: Error) => void) {
    this.#make = (name) => {
      const queue = new Queue(name, {
        connection,
        prefix: bullmqPrefix(shardPrefix),
        defaultJobOptions: UNTIL_DONE,
        streams: { events: { maxLen: 1_000 } },
      });
      queue.on('error', (error) => onError(name as QueueName, error));
      return queue;
    };
    this.#queues = Object.fromEntries(QUEUE_NAMES.map((name) => [name, this.#make(name)])) as {
      [Name in QueueName]: Queue;
    };
  }

  /** @param id adding a second job with the same id has no effect until the first job is done */
  async add<Name extends QueueName>(name: Name, id: string, data: Jobs[Name]): Promise<void> {
    await this.#queues[name].add(name, data, { jobId: id });
  }

  /**
   * Removes the repeated jobs of earlier versions, which scheduled sweeps as jobs. A running worker of such a version
   * adds its jobs again.
   */
  async removeIntervals(): Promise<void> {
    for (const name of EARLIER_INTERVALS) {
      const queue = this.#queues[name as QueueName] ?? this.#make(name);
      await queue.removeJobScheduler(name);
      if (!(name in this.#queues)) await queue.close();
    }
  }

  /**
   * Retries all delayed jobs now. No pause is longer than a second, so a delayed job is due soon, or a change of the
   * system time has delayed it.
   */
  async retryNow(): Promise<void> {
    await Promise.all(QUEUE_NAMES.map((name) => this.#queues[name].promoteJobs()));
  }

  async counts(name: QueueName): Promise<{ waiting: number; active: number; delayed: number; failed: number }> {
    const counts = await this.#queues[name].getJobCounts('waiting', 'active', 'delayed', 'failed');
    return {
      waiting: counts.waiting ?? 0,
      active: counts.active ?? 0,
      delayed: counts.delayed ?? 0,
      failed: counts.failed ?? 0,
    };
  }

  /** All queues, for the dashboard. Jobs must be added with `add`. */
  all(): Queue[] {
    return QUEUE_NAMES.map((name) => this.#queues[name]);
  }

  async close(): Promise<void> {
    await Promise.all(QUEUE_NAMES.map((name) => this.#queues[name].close()));
  }
}

export type Processor<Name extends QueueName> = (data: Jobs[Name]) => Promise<void>;

/** Starts processing the jobs of one queue. If a worker dies, another worker gets its job after `lockDuration`. */
export function startJobWorker<Name extends QueueName>(
  name: Name,
  processor: Processor<Name>,
  connection: Redis,
  { shardPrefix, ...options }: Pick<WorkerOptions, 'concurrency'> & { shardPrefix: string },
  on: { failed: (queue: QueueName, error: Error) => void; error: (queue: QueueName, error: Error) => void },
): Worker {
  const worker = new Worker(name, async (job: Job) => processor(job.data as Jobs[Name]), {
    connection,
    prefix: bullmqPrefix(shardPrefix),
    ...options,
    lockDuration: 4_000,
    stalledInterval: 2_000,
    // A job is stalled if its worker died. It is run again, however often that happens.
    maxStalledCount: Number.MAX_SAFE_INTEGER,
    // Added jobs wake a worker at once. This delay matters only if a wake-up was lost.
    drainDelay: 5,
    settings: { backoffStrategy: retryDelayMs },
  });
  worker.on('failed', (_job, error) => on.failed(name, error));
  worker.on('error', (error) => {
    on.error(name, error);
    if (error.message.startsWith('OOM ')) restALittle(worker);
  });
  return worker;
}

/**
 * Pauses a worker while Redis is full, because BullMQ would repeat the refused call without a pause, thousands of times
 * a second.
 */
function restALittle(worker: Worker): void {
  if (worker.isPaused() || worker.closing) return;
  const ignore = () => {
    // The worker reports its errors by the `error` event.
  };
  worker.pause(true).catch(ignore);
  const timer = setTimeout(() => {
    worker.off('closing', stop);
    worker.resume().catch(ignore);
  }, REST_MS);
  const stop = () => clearTimeout(timer);
  worker.once('closing', stop);
}
