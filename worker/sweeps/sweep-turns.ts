import type { Redis } from 'ioredis';
import { keys } from '../../shared/redis/keys.js';

/** Frequent sweeps are asked for once in this time; it bounds how late another worker takes over. */
const SHORTEST_TURN_MS = 1_000;
/** A turn ends a little before the next run is due, so that the timer of the same worker finds it over. */
const SHARE = 0.8;

/**
 * Decides which worker runs a sweep: the first one that asks has the turn until the next run is near, of a frequent sweep
 * for several runs. A worker that dies or freezes has one turn at most. Two runs at once would do no harm, only work twice.
 */
export class SweepTurns {
  /** Sweep → when the turn of this worker ends, by the monotonic clock. */
  readonly #mine = new Map<string, number>();

  constructor(readonly redis: Redis) {}

  /** @param everyMs interval of the sweep. @returns whether this worker runs it now */
  async take(sweep: string, everyMs: number): Promise<boolean> {
    const asked = performance.now();
    if (asked < (this.#mine.get(sweep) ?? 0)) return true;
    const turnMs = Math.ceil(Math.max(everyMs, SHORTEST_TURN_MS) * SHARE);
    try {
      if ((await this.redis.set(keys.sweep(sweep), '1', 'PX', turnMs, 'NX')) === 'OK') {
        this.#mine.set(sweep, asked + turnMs);
        return true;
      }
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
