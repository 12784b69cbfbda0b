import type { Redis } from 'ioredis';
import type { Event } from '../read-events.js';

const REDEEMED = 'dev.doorbuster.redemption.redeemed.v1';

export type Rule = { by: 'user_id' | 'device_fp'; limit: number; windowMs: number };
export type Suspicion = { rule: Rule; who: string; count: number };

/**
 * Counts redemptions of a user or device in a sliding window. The event's id is the member of a sorted set and its own
 * time the score: an event that comes twice is counted once, and one that comes late is counted where it belongs.
 */
export class FraudCounter {
  constructor(
    readonly redis: Redis,
    readonly prefix: string,
    readonly rules: readonly Rule[],
  ) {}

  /** @returns who did more than a rule allows */
  async handle({ id, type, time, data }: Event): Promise<Suspicion[]> {
    if (type !== REDEEMED) return [];
    const at = Date.parse(time);
    const found: Suspicion[] = [];
    for (const rule of this.rules) {
      const who = data[rule.by];
      if (typeof who !== 'string') continue;
      const key = `${this.prefix}:${rule.by}:${who}`;
      const results = await this.redis
        .multi()
        .zadd(key, at, id)
        .zcount(key, `(${at - rule.windowMs}`, at)
        .zremrangebyscore(key, '-inf', at - 2 * rule.windowMs)
        .pexpire(key, 2 * rule.windowMs)
        .exec();
      const count = Number(results?.[1]?.[1] ?? 0);
      if (count > rule.limit) found.push({ rule, who, count });
    }
    return found;
  }
}
