import { DelayedError, type Job, type JobProgress, UnrecoverableError, Worker } from 'bullmq';
import { isUsable, type JobData, type JobResult, type QueueName, queueOf, wordsOf } from '../contracts/jobs.js';
import { EngineUnavailable } from '../errors/faults.js';
import { bullmqPrefix } from '../redis/keys.js';
import { FAILED_KEPT, type QueueServer } from './queues.js';

const SECOND_MS = 1_000;
const RETRY_MAX_MS = 1_000;
/** How long a worker pauses when Redis is full. */
const REST_MS = 1_000;

/**
 * When a job counts as left by its worker: its lock of `lockMs` is renewed every `renewMs`, and the check for jobs
 * without a lock runs every `checkMs`. Another worker takes over after at most `lockMs` + `checkMs`.
 */
type Locks = { lockMs: number; renewMs: number; checkMs: number };
/** No lock and no mark of the check lives longer. */
export const LOCK_MS = 4_000;
const LOCKS: Locks = { lockMs: LOCK_MS, renewMs: 2_000, checkMs: LOCK_MS };
const LOCKS_OF: Partial<Record<QueueName, Locks>> = {
  persist: { lockMs: 1_500, renewMs: 1_000, checkMs: 1_000 },
  expire: { lockMs: 1_500, renewMs: 1_000, checkMs: 1_000 },
};
/** The job that a processor runs. */
export type RunningJob = {
  id: string;
  /** Whether an earlier attempt failed. */
  hasFailed: boolean;
  /** Shows what is left to do on the dashboard. */
  report(progress: JobProgress): Promise<void>;
};

/** A processor returns this to run the same job again, instead of ending it. @see dueMs */
export class RunAgain {
  constructor(readonly afterMs: number) {}
}

export type Processor<Name extends QueueName> = (
  data: JobData<Name>,
  job: RunningJob,
) => Promise<JobResult<Name> | RunAgain>;

export type JobWorkerOptions = {
  shard: number;
  concurrency: number;
  /** Names the process on the dashboard. */
  processName: string;
  /** Milliseconds before the attempt after `attempt` failed ones. */
  retryDelayMs?: (attempt: number) => number;
};

export type JobWorkerEvents = {
  /** @param job what the job does */
  failed: (queue: string, error: unknown, job: string) => void;
  error: (queue: string, error: Error) => void;
  /** Redis is full, so the worker pauses for a second. */
  full: () => void;
};

/** The pause before an attempt: doubles from 50 ms up to one second. */
export const retryDelayMs = (attempt: number): number => Math.min(RETRY_MAX_MS, 25 * 2 ** Math.min(attempt, 10));

/**
 * When a job runs again: after its pause, up to half a second more or less, so that the jobs of all sweeps begin with a
 * second. A worker wakes up once for several of them, and waking up is most of what it does while nothing is sold.
 */
export function dueMs(nowMs: number, afterMs: number): number {
  const dueMs = nowMs + afterMs;
  return afterMs < SECOND_MS ? dueMs : Math.round(dueMs / SECOND_MS) * SECOND_MS;
}

/** Starts processing the jobs of one queue. */
export function startJobWorker<Name extends QueueName>(
  name: Name,
  processor: Processor<Name>,
  { connection, shardPrefix }: QueueServer,
  options: JobWorkerOptions,
  on: JobWorkerEvents,
): Worker {
  const { lockMs, renewMs, checkMs } = LOCKS_OF[name] ?? LOCKS;
  const queue = queueOf(name, options.shard);
  const run = async (job: Job, token?: string) => {
    // Fails for good and is removed. Only something else than Doorbuster can have added it.
    if (!isUsable(name, job.data) || isOfOther(job, options.shard))
      throw new UnrecoverableError('the job has data that cannot be used');
    let result: JobResult<Name> | RunAgain;
    try {
      result = await processor(job.data, runningJob(job));
    } catch (error) {
      on.failed(queue, error, wordsOf(name, job.data));
      throw new Error(inWords(error));
    }
    if (!(result instanceof RunAgain)) return result;
    await job.moveToDelayed(dueMs(Date.now(), result.afterMs), token);
    throw new DelayedError();
  };
  const worker = new Worker(queue, run, {
    connection,
    prefix: bullmqPrefix(shardPrefix),
    name: options.processName,
    concurrency: options.concurrency,
    lockDuration: lockMs,
    lockRenewTime: renewMs,
    stalledInterval: checkMs,
    // A job is stalled if its worker died. It is run again, however often that happens.
    maxStalledCount: Number.MAX_SAFE_INTEGER,
    // For jobs without options of their own, which something else has added.
    removeOnComplete: { count: 0 },
    removeOnFail: { count: FAILED_KEPT },
    // Added jobs wake a worker at once. This delay matters only if a wake-up was lost.
    drainDelay: 10,
    settings: { backoffStrategy: options.retryDelayMs ?? retryDelayMs },
  });
  worker.on('error', (error) => {
    on.error(queue, error);
    if (isFull(error)) {
      on.full();
      restALittle(worker);
    }
  });
  return worker;
}

/** Whether Redis has reached `maxmemory` and rejects every command that needs memory. */
export function isFull(error: unknown): boolean {
  return error instanceof Error && error.message.includes('OOM ');
}

/** Whether a job is in the queue of another shard, or is another job of a sweep than its only one. */
function isOfOther({ id, data }: Job, shard: number): boolean {
  return (data.shard !== undefined && data.shard !== shard) || (data.sweep !== undefined && data.sweep !== id);
}

const runningJob = (job: Job): RunningJob => ({
  id: job.id ?? '',
  hasFailed: Boolean(job.failedReason),
  report: (progress) => job.updateProgress(progress),
});

/** The reason of a failure as the dashboard shows it. */
function inWords(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof EngineUnavailable)) return message;
  return `${error.engine === 'postgres' ? 'Postgres' : 'Redis'} is away: ${message}`;
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
