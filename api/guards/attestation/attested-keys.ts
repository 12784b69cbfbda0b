import type { Redis } from 'ioredis';
import type { DeviceId } from '../../../shared/domain/ids.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import type { CallerShards } from '../../../shared/shards/shards.js';

/** A key in a device's secure hardware that Apple has attested. */
export type AttestedKey = { publicKey: string; app: string; device: DeviceId };

const USES = 'n';

/** Keys of App Attest, in Redis. If Redis loses them, each device attests a new key with one more call. */
export class AttestedKeys {
  constructor(
    readonly shards: CallerShards,
    readonly keepMs: number,
  ) {}

  /** Stores a key unless the id exists. @returns the stored key: the previous one if there was one */
  async keep(id: string, key: AttestedKey): Promise<AttestedKey> {
    const text = JSON.stringify(key);
    const before = await this.#call(id, (redis) =>
      redis.set(keys.attestedKey(id), text, 'PX', this.keepMs, 'NX', 'GET'),
    );
    return before === null ? key : (JSON.parse(before) as AttestedKey);
  }

  async find(id: string): Promise<AttestedKey | null> {
    const text = await this.#call(id, (redis) => redis.getex(keys.attestedKey(id), 'PX', this.keepMs));
    return text === null ? null : (JSON.parse(text) as AttestedKey);
  }

  /**
   * Raises the counter of a key. One command compares and stores it, so that of two concurrent calls only one succeeds.
   * @returns whether the counter is higher than the stored one
   */
  async advance(id: string, uses: number): Promise<boolean> {
    const key = keys.attestedUses(id);
    const [changed] = await this.#call(id, (redis) =>
      Promise.all([redis.zadd(key, 'GT', 'CH', uses, USES), redis.pexpire(key, this.keepMs)]),
    );
    return Number(changed) === 1;
  }

  async #call<Value>(id: string, call: (redis: Redis) => Promise<Value>): Promise<Value> {
    const { gate, commands } = this.shards.spread(id);
    try {
      return await gate.guard(() => call(commands));
    } catch (error) {
      if (error instanceof EngineUnavailable) throw error;
      throw EngineUnavailable.from('redis', error);
    }
  }
}
