import type { Redis } from 'ioredis';
import { keys } from '../../shared/redis/keys.js';

/**
 * A turn lasts at least about this long, so that workers do not ask Redis before each run of a frequent sweep. It
 * bounds how late another worker takes over.
 */
const SHORTEST_TURN_MS = 1_000;
/** A turn ends a little before the next run is due, so that it has ended when the timer of the same worker fires. */
const SHARE = 0.8;

/**
 * Decides which worker runs a sweep. The first worker that asks gets the turn until shortly before the next run; a turn
 * of a frequent sweep covers several runs. A worker that dies or freezes blocks others for one turn at most. Two runs
 * at once do no harm, they only waste work.
 */
export class SweepTurns {
  /** Sweep → when the turn of this worker ends, by the monotonic clock in ms. */
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
      // A full Redis refuses the turn to every worker. The sweep runs anyway, because ending records frees memory.
      if (error instanceof Error && error.message.startsWith('OOM ')) return true;
      throw error;
    }
    // The turn lasts longer than any turn can, because the clock of Redis was set back.
    if ((await this.redis.pttl(keys.sweep(sweep))) > turnMs) await this.redis.del(keys.sweep(sweep));
    return false;
  }
}
