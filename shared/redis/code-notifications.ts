import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { askRedis } from './ask-redis.js';
import { keys } from './keys.js';

/**
 * Announces codes to the filters of all API processes before they are committed, so that none is refused as unknown.
 */
export class CodeNotifications {
  constructor(
    readonly redis: Redis,
    readonly limits: { announced: number; settleMs: number },
  ) {}

  /**
   * Announces codes that the caller is about to commit. An announced code that is never committed is harmless.
   * @returns a function that the caller must await before the commit: afterwards each filter has received the codes,
   *   or has detected that it may have missed some (docs/decisions/0011-code-filter.md)
   * @throws EngineUnavailable; the caller must not commit then
   */
  async announce(codes: readonly string[]): Promise<() => Promise<void>> {
    for (let from = 0; from < codes.length; from += this.limits.announced) {
      const some = codes.slice(from, from + this.limits.announced).join(',');
      await askRedis(() => this.redis.publish(keys.codes, some));
    }
    const until = performance.now() + this.limits.settleMs;
    return async () => {
      const leftMs = until - performance.now();
      if (codes.length > 0 && leftMs > 0) await sleep(leftMs);
    };
  }
}
