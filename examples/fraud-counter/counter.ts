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
      // Events of several users come in any order, so the fullest of the windows that contain this one counts.
      const results = await this.redis
        .multi()
        .zadd(key, at, id)
        .zrangebyscore(key, `(${at - rule.windowMs}`, `(${at + rule.windowMs}`, 'WITHSCORES')
        .zremrangebyscore(key, '-inf', at - 2 * rule.windowMs)
        .pexpire(key, 2 * rule.windowMs)
        .exec();
      const scored = ((results?.[1]?.[1] ?? []) as unknown[]).flat();
      const times = scored.filter((_, i) => i % 2 === 1).map(Number);
      const count = Math.max(...times.map((end) => fullness(times, end, rule.windowMs, at)));
      if (count > rule.limit) found.push({ rule, who, count });
    }
    return found;
  }
}

/** How many of the times are in the window that ends at `end`; 0 when it does not contain `at`. */
function fullness(times: readonly number[], end: number, windowMs: number, at: number): number {
  if (at > end || at <= end - windowMs) return 0;
  return times.filter((time) => time > end - windowMs && time <= end).length;
}
