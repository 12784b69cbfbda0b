import type { Redis } from 'ioredis';
import { LONGEST_IDEMPOTENCY_TTL_MS } from '../domain/idempotency.js';
import { askRedis } from './ask-redis.js';
import { keys } from './keys.js';

/** The request of a promise: its idempotency record is `keys.idempotency(user, key)`. */
export type RequestName = { user: string; key: string };
/** `no`: of the campaign. `atMs`: when the promise was made, by the clock of Redis. */
export type FiledRequestName = RequestName & { no: number; atMs: number };

/** Names of one period are in one list, which expires as a whole. */
const PERIOD_MS = 6 * 3_600_000;
/** After a fail-over the clock of another Redis is read. The two may differ by less than this. */
const CLOCKS_MS = 3_600_000;
/** Texts that are read in one round trip, each with the names of one batch of the journal. */
const TEXTS = 20;

/**
 * Names of the idempotency records of one shard by campaign, so that a repair of Postgres finds them without a scan of
 * Redis. The worker writes them as it persists the promises, in no script that a shopper waits for: one text for each
 * batch, campaign and period. All times are of Redis: names are filed by the time of their promise, and found by
 * `TIME`.
 */
export class RequestNames {
  constructor(readonly redis: Redis) {}

  /**
   * Keeps names for as long as Redis has their records.
   * @param ttlMs of the records
   */
  async keep(names: readonly FiledRequestName[], ttlMs: number): Promise<void> {
    const lists = new Map<string, [user: string, key: string][]>();
    for (const { no, user, key, atMs } of names) {
      const list = keys.requests(no, periodOf(atMs));
      const some = lists.get(list);
      if (some) some.push([user, key]);
      else lists.set(list, [[user, key]]);
    }
    if (lists.size === 0) return;
    const pipeline = this.redis.pipeline();
    for (const [list, some] of lists) {
      pipeline.rpush(list, JSON.stringify(some));
      pipeline.pexpire(list, ttlMs + PERIOD_MS + CLOCKS_MS);
    }
    for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
  }

  /** Removes the names of a campaign whose records are gone. @throws EngineUnavailable */
  async drop(no: number): Promise<void> {
    await askRedis(async () => this.redis.unlink(...listsOf(no, await this.#nowMs())));
  }

  /**
   * Yields the names of some campaigns, those of a campaign from the oldest to the latest. A name may come twice, and
   * its record may be gone.
   * @param campaigns their numbers
   */
  async *of(campaigns: Iterable<number>): AsyncGenerator<RequestName[], void> {
    const nowMs = await this.#nowMs();
    for (const no of new Set(campaigns)) yield* this.#read(listsOf(no, nowMs));
  }

  async #nowMs(): Promise<number> {
    const [seconds] = await this.redis.time();
    return Number(seconds) * 1_000;
  }

  async *#read(lists: readonly string[]): AsyncGenerator<RequestName[], void> {
    const lengths = await Promise.all(lists.map((key) => this.redis.llen(key)));
    for (const [i, key] of lists.entries()) {
      for (let from = 0; from < (lengths[i] ?? 0); from += TEXTS) {
        const texts = await this.redis.lrange(key, from, from + TEXTS - 1);
        for (const text of texts)
          yield (JSON.parse(text) as [string, string][]).map(([user, name]) => ({ user, key: name }));
      }
    }
  }
}

const periodOf = (ms: number) => Math.floor(ms / PERIOD_MS);

/** Returns all lists that a campaign may have: one for each period in which a record that exists may have been made. */
function listsOf(no: number, nowMs: number): string[] {
  const first = periodOf(nowMs - LONGEST_IDEMPOTENCY_TTL_MS - CLOCKS_MS);
  const last = periodOf(nowMs + CLOCKS_MS);
  return Array.from({ length: last - first + 1 }, (_, i) => keys.requests(no, first + i));
}
