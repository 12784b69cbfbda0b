import type { Queue } from 'bullmq';
import { LOCK_MS } from './job-worker.js';
import type { JobQueues, OneQueue } from './queues.js';

/** BullMQ keeps a counter in the lower bits of the scores of delayed jobs. */
const SCORE_UNIT = 0x1000;
/** The reading of one queue is bounded. */
const READ_JOBS = 100;

/** What the upkeep has repaired in a queue. */
export type Repair = 'resumed' | 'lock shortened' | 'jobs brought forward';

type Look = {
  paused: boolean;
  delayed: readonly [jobId: string, dueMs: number][];
  /** Ids of jobs. */
  active: readonly string[];
  /** How long the mark of the check for stalled jobs lives. */
  checkMs: number;
};

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
    const looks = await lookAt(mine);
    await Promise.all(mine.map((one, i) => this.#check(one, looks[i] as Look)));
  }

  async #check(one: OneQueue, { paused, delayed, active, checkMs }: Look): Promise<void> {
    const { queue, redis } = one;
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
    const lockKeys = active.map((jobId) => `${queue.toKey(jobId)}:lock`);
    const lockMs = await Promise.all(lockKeys.map((key) => redis.pttl(key)));
    const locks = lockKeys.filter((_key, i) => Number(lockMs[i]) > 2 * LOCK_MS);
    if (checkMs > 2 * LOCK_MS) locks.push(queue.toKey('stalled-check'));
    if (locks.length > 0) {
      // A live worker renews its lock. That of a dead one ends.
      await Promise.all(locks.map((key) => redis.pexpire(key, LOCK_MS)));
      this.onRepair(queue.name, 'lock shortened');
    }
  }
}

/** Looks at queues of one shard with one command to its server. @throws Error of the server */
async function lookAt(queues: readonly OneQueue[]): Promise<Look[]> {
  const pipeline = queues[0]?.redis.pipeline();
  for (const { queue } of queues)
    pipeline
      ?.hget(queue.toKey('meta'), 'paused')
      .zrange(queue.toKey('delayed'), '0', String(READ_JOBS - 1), 'WITHSCORES')
      .lrange(queue.toKey('active'), 0, READ_JOBS - 1)
      .pttl(queue.toKey('stalled-check'));
  const replies = ((await pipeline?.exec()) ?? []).map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
  return queues.map((_, i) => {
    const [paused, delayed, active, checkMs] = replies.slice(4 * i, 4 * i + 4) as [unknown, string[], string[], number];
    const pairs = Array.from({ length: delayed.length / 2 }, (_pair, j): [string, number] => [
      String(delayed[2 * j]),
      Number(delayed[2 * j + 1]) / SCORE_UNIT,
    ]);
    return { paused: paused !== null, delayed: pairs, active, checkMs };
  });
}
