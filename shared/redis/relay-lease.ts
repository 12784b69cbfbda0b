import type { Redis } from 'ioredis';
import { EngineUnavailable } from '../errors/faults.js';
import { keys } from './keys.js';

const LEASE_MS = 5_000;

/**
 * Lease of the worker that relays the journal. Two relays at once would only do the same work twice, so it is a simple
 * lease without fencing: its holder renews it, and five seconds after the death of the holder another worker acquires
 * it.
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
      // A full Redis refuses the lease to every worker, but only draining the journal frees memory. The worker
      // therefore relays without a lease; two relays do no harm.
    }
    this.#heldUntil = asked + LEASE_MS / 3;
    return true;
  }

  async #take(): Promise<boolean> {
    const mine =
      (await this.redis.set(keys.relayLease, this.holder, 'PX', LEASE_MS, 'NX')) === 'OK' ||
      (await this.redis.get(keys.relayLease)) === this.holder;
    if (!mine) {
      // A longer expiry than any lease means that the clock of Redis went back. Its holder may be dead.
      if ((await this.redis.pttl(keys.relayLease)) > LEASE_MS) await this.redis.del(keys.relayLease);
      return false;
    }
    await this.redis.pexpire(keys.relayLease, LEASE_MS);
    return true;
  }

  /** Returns the current holder; null = none. @throws EngineUnavailable */
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

/** Whether Redis has reached `maxmemory` and rejects every command that needs memory. */
function isFull(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('OOM ');
}
