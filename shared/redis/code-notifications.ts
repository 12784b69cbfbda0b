import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { EngineUnavailable } from '../errors/faults.js';
import { keys } from './keys.js';

/** Tells the filters of all APIs about codes before these exist, so that none is ever refused as unknown. */
export class CodeNotifications {
  constructor(
    readonly redis: Redis,
    readonly limits: { codeAnnounceCodes: number; codeSettleMs: number },
  ) {}

  /**
   * Announces codes that the caller is about to commit. A code that is not committed after all does no harm.
   * @returns a wait that must be over before the commit: by then each filter has heard of them, or knows that it may have
   *   missed something (docs/decisions/0011-code-filter.md)
   * @throws EngineUnavailable: then nothing may be committed
   */
  async announce(codes: readonly string[]): Promise<() => Promise<void>> {
    try {
      for (let from = 0; from < codes.length; from += this.limits.codeAnnounceCodes) {
        await this.redis.publish(keys.codes, codes.slice(from, from + this.limits.codeAnnounceCodes).join(','));
      }
    } catch (error) {
      throw EngineUnavailable.from('redis', error);
    }
    const until = performance.now() + this.limits.codeSettleMs;
    return async () => {
      const leftMs = until - performance.now();
      if (codes.length > 0 && leftMs > 0) await sleep(leftMs);
    };
  }
}
