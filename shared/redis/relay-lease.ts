import type { Redis } from 'ioredis';
import { EngineUnavailable } from '../errors/faults.js';
import { keys } from './keys.js';

const LEASE_MS = 5_000;

/**
 * Which worker relays the journal. Two at once would do no harm, only work twice, so this is a plain lease without
 * fencing: whoever holds it renews it, and five seconds after its death another one has it.
 */
export class RelayLease {
  #heldUntil = 0;

  constructor(
    readonly redis: Redis,
    readonly holder: string,
  ) {}

  async hold(): Promise<boolean> {
    if (performance.now() < this.#heldUntil) return true;
    const asked = performance.now();
    try {
      if (!(await this.#take())) return false;
    } catch (error) {
      if (!isFull(error)) throw error;
      // A full Redis refuses the lease to every worker, and only draining the journal frees memory. Two relays do no harm.
    }
    this.#heldUntil = asked + LEASE_MS / 3;
    return true;
  }

  async #take(): Promise<boolean> {
    const mine =
      (await this.redis.set(keys.relayLease, this.holder, 'PX', LEASE_MS, 'NX')) === 'OK' ||
      (await this.redis.get(keys.relayLease)) === this.holder;
    if (!mine) {
      // Longer than it was ever given for: Redis's clock went back, and whoever has it may be dead for all that time.
      if ((await this.redis.pttl(keys.relayLease)) > LEASE_MS) await this.redis.del(keys.relayLease);
      return false;
    }
    await this.redis.pexpire(keys.relayLease, LEASE_MS);
    return true;
  }

  /** Who has it now; null = nobody. @throws EngineUnavailable */
  async currentHolder(): Promise<string | null> {
    try {
      return await this.redis.get(keys.relayLease);
    } catch (error) {
      throw EngineUnavailable.from('redis', error);
    }
  }

  async release(): Promise<void> {
    if (performance.now() >= this.#heldUntil) return;
    this.#heldUntil = 0;
    if ((await this.redis.get(keys.relayLease).catch(() => null)) === this.holder) {
      await this.redis.del(keys.relayLease).catch(() => 0);
    }
  }
}

/** Redis has reached `maxmemory` and refuses every command that needs more. */
function isFull(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('OOM ');
}
