import type { Redis } from 'ioredis';
import { keys } from '../redis/keys.js';

/** The trailing hour, the current minute, and a reserve. */
const KEEP_SECONDS = 90 * 60;
const PAUSE_SECONDS = 60 * 60;

/** Counts promises of campaigns by minute, for all API processes. */
export class VelocityStore {
  constructor(readonly redis: Redis) {}

  async add(minute: number, counts: ReadonlyMap<string, number>): Promise<void> {
    if (counts.size === 0) return;
    const pipeline = this.redis.pipeline();
    const key = keys.attempts(minute);
    for (const [product, count] of counts) pipeline.hincrby(key, product, count);
    pipeline.expire(key, KEEP_SECONDS);
    await pipeline.exec();
  }

  async inMinute(minute: number): Promise<ReadonlyMap<string, number>> {
    const counts = await this.redis.hgetall(keys.attempts(minute));
    return new Map(Object.entries(counts).map(([product, count]) => [product, Number(count)]));
  }

  /** Returns the mean number of promises per minute over the `minutes` before this one. */
  async usual(product: string, minute: number, minutes: number): Promise<number> {
    const pipeline = this.redis.pipeline();
    for (let before = 1; before <= minutes; before += 1) pipeline.hget(keys.attempts(minute - before), product);
    const counts = (await pipeline.exec()) ?? [];
    return counts.reduce((sum, [, count]) => sum + Number(count ?? 0), 0) / minutes;
  }

  /**
   * Returns whether this minute has caused no alert yet, so that it cannot overrule an operator who resumes the sale.
   */
  async claimAlert(product: string, minute: number): Promise<boolean> {
    return (await this.redis.set(keys.used(`v:${minute}:${product}`), '1', 'EX', KEEP_SECONDS, 'NX')) === 'OK';
  }

  /**
   * Returns whether a campaign may be paused now: at most once an hour, so that an operator who resumes it is not
   * overruled.
   */
  async claimPause(product: string): Promise<boolean> {
    return (await this.redis.set(keys.used(`vp:${product}`), '1', 'EX', PAUSE_SECONDS, 'NX')) === 'OK';
  }
}

/** The counts of all shards: those of a campaign are in its shard. */
export class VelocityStores {
  constructor(
    /** By shard. */
    readonly stores: readonly VelocityStore[],
    readonly shardOf: (product: string) => number,
  ) {}

  async add(minute: number, counts: ReadonlyMap<string, number>): Promise<void> {
    const byShard = this.stores.map(() => new Map<string, number>());
    for (const [product, count] of counts) byShard[this.shardOf(product)]?.set(product, count);
    await Promise.all(this.stores.map((store, shard) => store.add(minute, byShard[shard] ?? new Map())));
  }
}
