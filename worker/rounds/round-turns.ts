import type { Redis } from 'ioredis';
import type { ProductId } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';

/**
 * How long a turn lasts, so that workers do not ask Redis before each round. It bounds how late another worker takes
 * over.
 */
const TURN_MS = 800;

/**
 * Decides which worker serves the line of a divided campaign. The first worker that asks gets the turn, which covers
 * several rounds. A worker that dies or freezes blocks others for one turn at most. Two workers at once do no harm.
 */
export class RoundTurns {
  /** Campaign → when the turn of this worker ends, by the monotonic clock in ms. */
  readonly #mine = new Map<ProductId, number>();

  constructor(readonly redis: Redis) {}

  /** @returns whether this worker has the turn */
  async take(product: ProductId): Promise<boolean> {
    const asked = performance.now();
    if (asked < (this.#mine.get(product) ?? 0)) return true;
    try {
      if ((await this.redis.set(keys.round(product), '1', 'PX', TURN_MS, 'NX')) === 'OK') {
        this.#mine.set(product, asked + TURN_MS);
        return true;
      }
    } catch (error) {
      // A full Redis refuses the turn to every worker. The round runs anyway; two workers at once do no harm.
      if (error instanceof Error && error.message.startsWith('OOM ')) return true;
      throw error;
    }
    // The turn lasts longer than any turn can, because the clock of Redis was set back.
    if ((await this.redis.pttl(keys.round(product))) > TURN_MS) await this.redis.del(keys.round(product));
    return false;
  }
}
