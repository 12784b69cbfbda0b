import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { UserId } from '../../../shared/domain/ids.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import type { CallerShards } from '../../../shared/shards/shards.js';
import { LocalQuota } from '../limits/local-quota.js';

export type AccountCountLimits = {
  accountsMemoryMs: number;
  firstAccountMs: number;
  newDevicesPerHour: number;
  callersKept: number;
};

const HOUR_MS = 3_600_000;
const HMAC_CHARACTERS = 22;

/** Counts the distinct users of a device and of a network, in Redis for all processes. */
export class AccountCounts {
  /** Number of new devices by network. */
  readonly #newDevices: LocalQuota;
  readonly #hmacKey: KeyObject;
  /** Part of the Redis key, so that a changed secret starts new counts. */
  readonly #keyId: string;

  /** @param secret the same in all processes; a change resets the counts of networks */
  constructor(
    readonly shards: CallerShards,
    secret: KeyObject,
    readonly limits: AccountCountLimits,
  ) {
    this.#newDevices = new LocalQuota(limits.newDevicesPerHour, HOUR_MS, limits.callersKept);
    const derived = hkdfSync('sha256', secret, '', 'doorbuster accounts in a network', 32);
    this.#hmacKey = createSecretKey(Buffer.from(derived));
    this.#keyId = this.#hmac('id').slice(0, 6);
  }

  /**
   * Counts a user of a device in a set, which is exact; the device is blocked before the set grows large. A client can
   * invent a device for each call. Therefore a device with one user expires after `firstAccountMs`, and a network can
   * add only `newDevicesPerHour` devices.
   * @returns number of users including this one; null = not counted, because the network has added too many devices
   */
  async onDevice(device: string, user: UserId, network: string): Promise<number | null> {
    const { accountsMemoryMs, firstAccountMs, newDevicesPerHour } = this.limits;
    const key = keys.accounts(`d:${device}`);
    return this.#guarded(device, async (redis) => {
      if (this.#newDevices.countOf(network) >= newDevicesPerHour && (await redis.exists(key)) === 0) return null;
      const [added, , count] = await Promise.all([
        redis.sadd(key, user),
        redis.pexpire(key, firstAccountMs, 'NX'),
        redis.scard(key),
      ]);
      if (count > 1) await redis.pexpire(key, accountsMemoryMs);
      else if (added === 1) this.#newDevices.count(network);
      return count;
    });
  }

  /**
   * Counts a user of a network in a HyperLogLog: at most 12 KiB, with an error of about 1 %. Its hash function is
   * public, so an attacker could choose user ids that do not raise the count; the ids are therefore replaced by an
   * HMAC.
   * @returns number of users including this one; null = not counted
   */
  async inNetwork(network: string, user: UserId): Promise<number | null> {
    const key = keys.accounts(`n:${this.#keyId}:${network}`);
    return this.#guarded(network, async (redis) => {
      const [, , count] = await Promise.all([
        redis.pfadd(key, this.#hmac(user)),
        redis.pexpire(key, this.limits.accountsMemoryMs),
        redis.pfcount(key),
      ]);
      return count;
    });
  }

  /**
   * Counts in the shard of a device or network. With several shards, it may be away while the campaign is served; then
   * nothing is counted.
   */
  async #guarded(name: string, count: (redis: Redis) => Promise<number | null>): Promise<number | null> {
    const { gate, commands } = this.shards.spread(name);
    try {
      return await gate.guard(() => count(commands));
    } catch (error) {
      if (this.shards.all.length > 1) return null;
      throw EngineUnavailable.from('redis', error);
    }
  }

  #hmac(text: string): string {
    return createHmac('sha256', this.#hmacKey).update(text).digest('base64url').slice(0, HMAC_CHARACTERS);
  }
}
