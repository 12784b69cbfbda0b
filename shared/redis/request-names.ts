import type { Redis } from 'ioredis';
import { LONGEST_IDEMPOTENCY_TTL_MS } from '../domain/idempotency.js';
import { EngineUnavailable } from '../errors/faults.js';
import { keys } from './keys.js';

/** The request of a promise: its idempotency record is `keys.idempotency(user, key)`. */
export type RequestName = { user: string; key: string };

/** Names of one period are in one list, which expires as a whole. */
const PERIOD_MS = 6 * 3_600_000;
/** The clocks of two machines may differ by less than this. */
const CLOCKS_MS = 3_600_000;
/** Texts that are read in one round trip, each with the names of one batch of the journal. */
const TEXTS = 20;

/**
 * Names of the idempotency records of one shard by campaign, so that a repair of Postgres finds them without a scan of
 * Redis. The worker writes them as it persists the promises, one text for each batch and campaign, hence in no script
 * that a shopper waits for.
 */
export class RequestNames {
  constructor(readonly redis: Redis) {}

  /**
   * Keeps names for as long as Redis has their records.
   * @param names by the number of their campaign
   * @param ttlMs of the records
   */
  async keep(names: ReadonlyMap<number, readonly RequestName[]>, ttlMs: number): Promise<void> {
    const pipeline = this.redis.pipeline();
    const period = Math.floor(Date.now() / PERIOD_MS);
    for (const [no, some] of names) {
      if (some.length === 0) continue;
      const key = keys.requests(no, period);
      pipeline.rpush(key, JSON.stringify(some.map(({ user, key: name }) => [user, name])));
      pipeline.pexpire(key, ttlMs + PERIOD_MS + CLOCKS_MS);
    }
    if (pipeline.length === 0) return;
    for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
  }

  /** Removes the names of a campaign whose records are gone. @throws EngineUnavailable */
  async drop(no: number): Promise<void> {
    await this.redis.unlink(...listsOf(no)).catch((error: unknown) => {
      throw EngineUnavailable.from('redis', error);
    });
  }

  /**
   * Yields the names of some campaigns, those of a campaign from the oldest to the latest. A name may come twice, and
   * its record may be gone.
   * @param campaigns their numbers
   */
  async *of(campaigns: Iterable<number>): AsyncGenerator<RequestName[], void> {
    for (const no of new Set(campaigns)) yield* this.#read(listsOf(no));
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

/** Returns all lists that a campaign may have: one for each period in which a record that exists may have been made. */
function listsOf(no: number): string[] {
  const [first, last] = [Date.now() - LONGEST_IDEMPOTENCY_TTL_MS - CLOCKS_MS, Date.now() + CLOCKS_MS].map((ms) =>
    Math.floor(ms / PERIOD_MS),
  ) as [number, number];
  return Array.from({ length: last - first + 1 }, (_, i) => keys.requests(no, first + i));
}
