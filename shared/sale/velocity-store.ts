import type { Redis } from 'ioredis';
import { keys } from '../redis/keys.js';

/** The trailing hour that is compared with, the minute that is judged, and some to spare. */
const KEEP_SECONDS = 90 * 60;
const PAUSE_SECONDS = 60 * 60;

/** Promises of campaigns by minute, from all API processes. */
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

  /** Promises a minute, over the `minutes` before this one; one without any counts as none. */
  async usual(product: string, minute: number, minutes: number): Promise<number> {
    const pipeline = this.redis.pipeline();
    for (let before = 1; before <= minutes; before += 1) pipeline.hget(keys.attempts(minute - before), product);
    const counts = (await pipeline.exec()) ?? [];
    return counts.reduce((sum, [, count]) => sum + Number(count ?? 0), 0) / minutes;
  }

  /** Whether this minute of a campaign is judged for the first time: an operator who resumes is not overruled by it again. */
  async claimAlert(product: string, minute: number): Promise<boolean> {
    return (await this.redis.set(keys.used(`v:${minute}:${product}`), '1', 'EX', KEEP_SECONDS, 'NX')) === 'OK';
  }

  /** Whether a campaign may be paused now: not again within the hour, when an operator has resumed it. */
  async claimPause(product: string): Promise<boolean> {
    return (await this.redis.set(keys.used(`vp:${product}`), '1', 'EX', PAUSE_SECONDS, 'NX')) === 'OK';
  }
}
