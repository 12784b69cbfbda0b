import type { Redis } from 'ioredis';
import type { DeviceId } from '../../../shared/domain/ids.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import type { RedisGate } from '../../../shared/redis/gate.js';
import { keys } from '../../../shared/redis/keys.js';

/** A key in a device's secure hardware that Apple has vouched for. */
export type AttestedKey = { publicKey: string; app: string; device: DeviceId };

const USES = 'n';

/** Keys of App Attest. Lost with Redis: then each device attests a new one, which takes it one more call. */
export class AttestedKeys {
  constructor(
    readonly redis: Redis,
    readonly gate: RedisGate,
    readonly keepMs: number,
  ) {}

  /** @returns what is kept under this id from now on: what was there before, if anything was */
  async keep(id: string, key: AttestedKey): Promise<AttestedKey> {
    const text = JSON.stringify(key);
    const before = await this.#call(() => this.redis.set(keys.attestedKey(id), text, 'PX', this.keepMs, 'NX', 'GET'));
    return before === null ? key : (JSON.parse(before) as AttestedKey);
  }

  async find(id: string): Promise<AttestedKey | null> {
    const text = await this.#call(() => this.redis.getex(keys.attestedKey(id), 'PX', this.keepMs));
    return text === null ? null : (JSON.parse(text) as AttestedKey);
  }

  /** Whether a key has signed more often than was known; then it is known. One command, so of two at once one is told so. */
  async advance(id: string, uses: number): Promise<boolean> {
    const key = keys.attestedUses(id);
    const [changed] = await this.#call(() =>
      Promise.all([this.redis.zadd(key, 'GT', 'CH', uses, USES), this.redis.pexpire(key, this.keepMs)]),
    );
    return Number(changed) === 1;
  }

  async #call<Value>(call: () => Promise<Value>): Promise<Value> {
    try {
      return await this.gate.guard(call);
    } catch (error) {
      if (error instanceof EngineUnavailable) throw error;
      throw EngineUnavailable.from('redis', error);
    }
  }
}
