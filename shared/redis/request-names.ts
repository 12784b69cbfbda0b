import type { Redis } from 'ioredis';
import { LONGEST_IDEMPOTENCY_TTL_MS } from '../domain/idempotency.js';
import { keys } from './keys.js';

/** The request of a promise: its idempotency record is `keys.idempotency(user, key)`. */
export type RequestName = { user: string; key: string };

const HOUR_MS = 3_600_000;
/** The clocks of two machines may differ by less than this. */
const CLOCKS_MS = HOUR_MS;
/** Lists that are read in one round trip, each with the names of one batch of the journal. */
const LISTS = 20;

/**
 * Names of the idempotency records of one shard, so that a repair of Postgres finds them without a scan of Redis. The
 * worker writes them as it persists the promises, one text for each batch, hence in no script that a shopper waits for.
 */
export class RequestNames {
  constructor(readonly redis: Redis) {}

  /** Keeps names for as long as Redis has their records. @param ttlMs of the records */
  async keep(names: readonly RequestName[], ttlMs: number): Promise<void> {
    if (names.length === 0) return;
    const key = keys.requests(Math.floor(Date.now() / HOUR_MS));
    const text = JSON.stringify(names.map(({ user, key: name }) => [user, name]));
    const results = await this.redis
      .pipeline()
      .rpush(key, text)
      .pexpire(key, ttlMs + HOUR_MS + CLOCKS_MS)
      .exec();
    for (const [error] of results ?? []) if (error) throw error;
  }

  /** Yields all names, the oldest first. A name may come twice, and its record may be gone. */
  async *all(): AsyncGenerator<RequestName[], void> {
    const [first, last] = [Date.now() - LONGEST_IDEMPOTENCY_TTL_MS - CLOCKS_MS, Date.now() + CLOCKS_MS].map((ms) =>
      Math.floor(ms / HOUR_MS),
    ) as [number, number];
    const hours = Array.from({ length: last - first + 1 }, (_, i) => keys.requests(first + i));
    const lengths = await Promise.all(hours.map((key) => this.redis.llen(key)));
    for (const [i, key] of hours.entries()) {
      for (let from = 0; from < (lengths[i] ?? 0); from += LISTS) {
        const texts = await this.redis.lrange(key, from, from + LISTS - 1);
        for (const text of texts)
          yield (JSON.parse(text) as [string, string][]).map(([user, name]) => ({ user, key: name }));
      }
    }
  }
}
