import type { Redis } from 'ioredis';
import { keys } from './keys.js';

/** A turn ends a little before the next one is due, so that the timer of the same worker finds it over. */
const SHARE = 0.8;

/**
 * Decides which worker runs a sweep this time: the first one that asks, and nobody else until the next time is near. A
 * worker that dies or freezes has taken one turn at most. Two runs at once would do no harm, only work twice.
 */
export class SweepTurns {
  constructor(readonly redis: Redis) {}

  async take(sweep: string, everyMs: number): Promise<boolean> {
    const turnMs = Math.ceil(everyMs * SHARE);
    try {
      if ((await this.redis.set(keys.sweep(sweep), '1', 'PX', turnMs, 'NX')) === 'OK') return true;
    } catch (error) {
      // A full Redis refuses the turn to every worker, and what a sweep ends frees memory.
      if (error instanceof Error && error.message.startsWith('OOM ')) return true;
      throw error;
    }
    // Longer than it was ever given for: Redis's clock went back.
    if ((await this.redis.pttl(keys.sweep(sweep))) > turnMs) await this.redis.del(keys.sweep(sweep));
    return false;
  }
}
