import type { Queue } from 'bullmq';
import { LOCK_MS } from './job-worker.js';
import type { JobQueues, OneQueue } from './queues.js';

/** BullMQ keeps a counter in the lower bits of the scores of delayed jobs. */
const SCORE_UNIT = 0x1000;
/** The reading of one queue is bounded. */
const READ_JOBS = 100;

/** What the upkeep has repaired in a queue. */
export type Repair = 'resumed' | 'lock shortened' | 'jobs brought forward';

type Look = { paused: boolean; delayed: readonly [jobId: string, dueMs: number][]; locks: readonly string[] };

/**
 * Puts queues right again: a queue that was paused, a lock that outlives its time because the clock of Redis went back,
 * and a job that waits too long because a clock of a process jumped. Jobs themselves are added again by the parts of
 * the worker that find their work.
 */
export class QueueUpkeep {
  constructor(
    readonly queues: JobQueues,
    /** How long a job of a queue may be delayed, ms. */
    readonly longestDelayMs: (queue: Queue, jobId: string) => number,
    readonly onRepair: (queue: string, repair: Repair) => void,
  ) {}

  /** Checks the queues of one shard, in one round trip if nothing is wrong. */
  async run(shard: number): Promise<void> {
    const mine = this.queues.all().filter((one) => one.shard === shard);
    await Promise.all(mine.map((one) => this.#check(one)));
  }

  async #check(one: OneQueue): Promise<void> {
    const { queue, redis } = one;
    const { paused, delayed, locks } = await this.#look(one);
    if (paused) {
      await queue.resume();
      this.onRepair(queue.name, 'resumed');
    }
    const late = delayed.filter(([jobId, dueMs]) => dueMs - Date.now() > this.longestDelayMs(queue, jobId));
    for (const [jobId] of late) {
      // Another worker may have brought it forward.
      await (await queue.getJob(jobId))?.promote().catch(() => {});
    }
    if (late.length > 0) this.onRepair(queue.name, 'jobs brought forward');
    if (locks.length > 0) {
      // A live worker renews its lock. That of a dead one ends.
      await Promise.all(locks.map((key) => redis.pexpire(key, LOCK_MS)));
      this.onRepair(queue.name, 'lock shortened');
    }
  }

  async #look({ queue, redis }: OneQueue): Promise<Look> {
    const [paused, delayed, active, checkMs] = await Promise.all([
      redis.hget(queue.toKey('meta'), 'paused'),
      redis.zrange(queue.toKey('delayed'), '0', String(READ_JOBS - 1), 'WITHSCORES'),
      redis.lrange(queue.toKey('active'), 0, READ_JOBS - 1),
      redis.pttl(queue.toKey('stalled-check')),
    ]);
    const lockKeys = active.map((jobId) => `${queue.toKey(jobId)}:lock`);
    const lockMs = await Promise.all(lockKeys.map((key) => redis.pttl(key)));
    const locks = lockKeys.filter((_key, i) => Number(lockMs[i]) > 2 * LOCK_MS);
    if (checkMs > 2 * LOCK_MS) locks.push(queue.toKey('stalled-check'));
    const pairs = Array.from({ length: delayed.length / 2 }, (_, i): [string, number] => [
      String(delayed[2 * i]),
      Number(delayed[2 * i + 1]) / SCORE_UNIT,
    ]);
    return { paused: paused !== null, delayed: pairs, locks };
  }
}
