import { type JobType, Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { type JobData, QUEUE_NAMES, QUEUES, type QueueName, queueOf, type SweepName } from '../contracts/jobs.js';
import { EngineUnavailable } from '../errors/faults.js';
import { bullmqPrefix } from '../redis/keys.js';

/** The server of a shard: a connection for BullMQ, and the prefix of the keys of the shard. */
export type QueueServer = { connection: Redis; shardPrefix: string };

export type JobCounts = { waiting: number; active: number; delayed: number; failed: number };

/**
 * `oldestSeconds`: how long the oldest job has waited; null = no job waits. `reason`: why the last attempt of a job
 * that waits failed; null = none failed.
 */
export type QueueState = JobCounts & {
  name: QueueName;
  queue: string;
  oldestSeconds: number | null;
  reason: string | null;
};

export type OneQueue = { name: QueueName; shard: number; queue: Queue; redis: Redis };

/** How many finished jobs the dashboard keeps. A finished job of another queue says nothing that the log does not. */
const KEPT: Partial<Record<QueueName, number>> = { persist: 20, expire: 20 };
/** How many failed jobs a queue keeps for the dashboard. */
export const FAILED_KEPT = 20;
/** For how many works the job is remembered. */
const JOBS_KNOWN = 10_000;
/** The jobs of sweeps are checked so many times more rarely than others: each second it is known that they exist. */
const SWEEPS_CHECKS = 4;
/** How long the number of jobs of a queue counts as known. */
const COUNT_FRESH_MS = 1_000;

/** Adds jobs, typed by queue, and reads the state of the queues. */
export class JobQueues {
  readonly #all: readonly OneQueue[];
  /** Queue → whether it is full, and when that was read (monotonic, ms). */
  readonly #counted = new Map<string, { full: boolean; at: number }>();
  /** Work → the job that does it, since when it is the same one (monotonic, ms), and whether it was found lost. */
  readonly #jobs = new Map<string, { id: string; checkedAt: number; isLost: boolean }>();
  /** When the jobs of all sweeps were last added (monotonic, ms). */
  #sweepsAddedAt = Number.NEGATIVE_INFINITY;

  /**
   * @param servers by shard
   * @param limits `queueJobs`: a queue with as many jobs takes no more. `checkJobEveryMs`: how often the job of some
   *   work is checked while it stays the same
   */
  constructor(
    servers: readonly QueueServer[],
    onError: (queue: string, error: Error) => void,
    readonly limits: { queueJobs: number; checkJobEveryMs: number },
  ) {
    this.#all = QUEUE_NAMES.flatMap((name) =>
      (QUEUES[name].where === 'home' ? servers.slice(0, 1) : servers).map((server, shard) => {
        const queue = openQueue(name, shard, server);
        queue.on('error', (error) => onError(queue.name, error));
        return { name, shard, queue, redis: server.connection };
      }),
    );
  }

  /**
   * Adds a job, unless a job of the same identity waits. A queue that is full takes no job, because sweeps find its
   * work again.
   * @param shard of the queue, for a queue that each shard has
   * @returns id of the job that does the work; null = the queue is full
   * @throws EngineUnavailable
   */
  async add<Name extends QueueName>(name: Name, data: JobData<Name>, shard = 0): Promise<string | null> {
    const { queue } = this.#of(name, shard);
    const { again, identity, jobs } = QUEUES[name];
    const id = identity(data);
    // A sweep is one job for good, which moves itself. A fixed id keeps it one.
    const options = name === 'sweeps' ? { jobId: id } : { deduplication: { id, keepLastIfActive: again } };
    try {
      if (jobs === 'many' && (await this.#isFull(queue))) return null;
      const { id: job = '' } = await queue.add(name, data, options);
      if (!(await this.#isLost(queue, id, job))) return job;
      await forget(queue, id, job);
      return (await queue.add(name, data, options)).id ?? null;
    } catch (error) {
      throw EngineUnavailable.from('redis', error);
    }
  }

  /**
   * Adds the jobs of sweeps that are missing. Workers call it every second, so one command finds out that none is.
   * Each fourth `checkJobEveryMs` all are added, which also finds a job that is in no list any more.
   * @throws EngineUnavailable
   */
  async addMissing(sweeps: readonly SweepName[]): Promise<void> {
    const { queue, redis } = this.#of('sweeps', 0);
    const now = performance.now();
    if (now - this.#sweepsAddedAt < SWEEPS_CHECKS * this.limits.checkJobEveryMs) {
      const jobs = sweeps.map((sweep) => queue.toKey(sweep));
      const found = await redis.exists(...jobs).catch((error: unknown) => {
        throw EngineUnavailable.from('redis', error);
      });
      if (found === jobs.length) return;
    }
    for (const sweep of sweeps) await this.add('sweeps', { sweep });
    this.#sweepsAddedAt = now;
  }

  /** Makes the next run of a sweep begin now. */
  async bringForward(sweep: SweepName): Promise<void> {
    // It may be running, or another worker has brought it forward.
    await (await this.#of('sweeps', 0).queue.getJob(sweep))?.promote().catch(() => {});
  }

  /** Runs the delayed jobs of a queue of all shards now. @returns their number. @throws EngineUnavailable */
  async retryNow(name: QueueName): Promise<number> {
    const mine = this.#all.filter((one) => one.name === name);
    try {
      const counts = await Promise.all(
        mine.map(async ({ queue }) => {
          const { delayed } = await countsOf(queue);
          await queue.promoteJobs();
          return delayed;
        }),
      );
      return counts.reduce((total, delayed) => total + delayed, 0);
    } catch (error) {
      throw EngineUnavailable.from('redis', error);
    }
  }

  /**
   * The state of every queue of every shard that responds.
   * @param nowMs by the clock of Redis; jobs have the times of the processes that added them
   * @throws EngineUnavailable if none responds
   */
  async states(nowMs: number): Promise<QueueState[]> {
    const results = await Promise.allSettled(this.#all.map((one) => stateOf(one, nowMs)));
    const states = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    if (states.length > 0) return states;
    throw EngineUnavailable.from('redis', (results[0] as PromiseRejectedResult).reason);
  }

  /** All queues, for the dashboard and the upkeep. Jobs must be added with `add`. */
  all(): readonly OneQueue[] {
    return this.#all;
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map(({ queue }) => queue.close()));
  }

  #of(name: QueueName, shard: number): OneQueue {
    const found = this.#all.find((one) => one.name === name && one.shard === shard);
    if (!found) throw new RangeError(`there is no queue ${queueOf(name, shard)}`);
    return found;
  }

  /**
   * Whether the job that does some work is in no list of its queue, or has ended and stayed. A queue of which parts
   * were deleted has such jobs, and BullMQ would drop each new job for them. Two checks must find it.
   */
  async #isLost(queue: Queue, work: string, id: string): Promise<boolean> {
    const name = `${queue.name} ${work}`;
    const known = this.#jobs.get(name);
    const now = performance.now();
    if (known?.id !== id) {
      if (this.#jobs.size >= JOBS_KNOWN) this.#jobs.clear();
      this.#jobs.set(name, { id, checkedAt: now, isLost: false });
      return false;
    }
    if (now - known.checkedAt < this.limits.checkJobEveryMs) return false;
    const state = await queue.getJobState(id);
    const isLost = state === 'unknown' || state === 'completed' || state === 'failed';
    this.#jobs.set(name, { id, checkedAt: now, isLost });
    return isLost && known.isLost;
  }

  async #isFull(queue: Queue): Promise<boolean> {
    const known = this.#counted.get(queue.name);
    if (known && performance.now() - known.at < COUNT_FRESH_MS) return known.full;
    const full = isFullQueue(await countsOf(queue), this.limits.queueJobs);
    this.#counted.set(queue.name, { full, at: performance.now() });
    return full;
  }
}

function openQueue(name: QueueName, shard: number, { connection, shardPrefix }: QueueServer): Queue {
  const kept = KEPT[name];
  return new Queue(queueOf(name, shard), {
    connection,
    prefix: bullmqPrefix(shardPrefix),
    // Redis has been verified (shared/redis/redis-requirements.ts).
    skipVersionCheck: true,
    defaultJobOptions: {
      // A job is retried until it succeeds, so that work resumes within seconds after an outage of Redis or Postgres.
      attempts: Number.MAX_SAFE_INTEGER,
      backoff: { type: 'untilDone' },
      removeOnComplete: kept === undefined ? true : { count: kept },
      removeOnFail: { count: FAILED_KEPT },
      // The dashboard shows reasons. Stacks are in the log.
      stackTraceLimit: 0,
    },
    streams: { events: { maxLen: 1_000 } },
  });
}

/** Deletes what is left of a lost job, so that a new one can do its work. */
async function forget(queue: Queue, work: string, id: string): Promise<void> {
  await queue.removeDeduplicationKey(work);
  await queue.remove(id).catch(() => {});
}

/** Whether a queue takes no more jobs. */
export const isFullQueue = ({ waiting, active, delayed }: JobCounts, queueJobs: number): boolean =>
  waiting + active + delayed >= queueJobs;

async function stateOf({ name, queue }: OneQueue, nowMs: number): Promise<QueueState> {
  // Sweeps wait for their next run most of the time.
  const waiting: JobType[] = name === 'sweeps' ? ['waiting'] : ['waiting', 'delayed'];
  const [counts, jobs] = await Promise.all([countsOf(queue), queue.getJobs(waiting, 0, 0, true)]);
  const oldestMs = Math.min(...jobs.map(({ timestamp }) => timestamp));
  return {
    ...{ name, queue: queue.name, ...counts },
    oldestSeconds: jobs.length > 0 ? Math.max(0, (nowMs - oldestMs) / 1000) : null,
    reason: jobs.find(({ failedReason }) => failedReason)?.failedReason ?? null,
  };
}

async function countsOf(queue: Queue): Promise<JobCounts> {
  const counts = await queue.getJobCounts('waiting', 'active', 'delayed', 'failed');
  const { waiting = 0, active = 0, delayed = 0, failed = 0 } = counts;
  return { waiting, active, delayed, failed };
}
