import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { DeviceId, UserId } from '../../../shared/domain/ids.js';
import { keys } from '../../../shared/redis/keys.js';
import { LocalQuota } from '../limits/local-quota.js';

export type AccountCountLimits = {
  accountsMemoryMs: number;
  firstAccountMs: number;
  newDevicesPerHour: number;
  callersKept: number;
};

const HOUR_MS = 3_600_000;
const HMAC_CHARACTERS = 22;

/** Users seen on a device and in a network, counted in Redis for all processes. */
export class AccountCounts {
  /** Devices that were new, by network. */
  readonly #newDevices: LocalQuota;
  readonly #hmacKey: KeyObject;
  /** Counts of another key begin anew. */
  readonly #keyId: string;

  /** @param secret the same in all processes; a change of it begins the counts of networks anew */
  constructor(
    readonly redis: Redis,
    secret: KeyObject,
    readonly limits: AccountCountLimits,
  ) {
    this.#newDevices = new LocalQuota(limits.newDevicesPerHour, HOUR_MS, limits.callersKept);
    const derived = hkdfSync('sha256', secret, '', 'doorbuster accounts in a network', 32);
    this.#hmacKey = createSecretKey(Buffer.from(derived));
    this.#keyId = this.#hmac('id').slice(0, 6);
  }

  /**
   * A set: it is exact, and a device is blocked before it grows. A device can be made up for each call, so one with a single user is
   * remembered for an hour only, and a network adds so many in an hour.
   * @returns users with this one; null = the network has added too many devices, and this one is not counted
   */
  async onDevice(device: DeviceId, user: UserId, network: string): Promise<number | null> {
    const { accountsMemoryMs, firstAccountMs, newDevicesPerHour } = this.limits;
    const key = keys.accounts(`d:${device}`);
    if (this.#newDevices.countOf(network) >= newDevicesPerHour && (await this.redis.exists(key)) === 0) return null;
    const [added, , count] = await Promise.all([
      this.redis.sadd(key, user),
      this.redis.pexpire(key, firstAccountMs, 'NX'),
      this.redis.scard(key),
    ]);
    if (count > 1) await this.redis.pexpire(key, accountsMemoryMs);
    else if (added === 1) this.#newDevices.count(network);
    return count;
  }

  /**
   * A hyperloglog: 12 KiB at most, however many people share an address, and about one in a hundred off. Its hash is public, so what
   * goes into it is keyed: names could be chosen that do not raise the count.
   */
  async inNetwork(network: string, user: UserId): Promise<number> {
    const key = keys.accounts(`n:${this.#keyId}:${network}`);
    const [, , count] = await Promise.all([
      this.redis.pfadd(key, this.#hmac(user)),
      this.redis.pexpire(key, this.limits.accountsMemoryMs),
      this.redis.pfcount(key),
    ]);
    return count;
  }

  #hmac(text: string): string {
    return createHmac('sha256', this.#hmacKey).update(text).digest('base64url').slice(0, HMAC_CHARACTERS);
  }
}
