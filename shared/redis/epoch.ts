import type { Redis } from 'ioredis';
import { keys } from './keys.js';

/**
 * The id of this incarnation of Redis; null while it is fresh and not filled yet. It is written last when Redis is filled
 * (worker/rebuild), so where there is one, everything that was promised is there.
 */
export async function readEpoch(redis: Redis): Promise<string | null> {
  return redis.get(keys.epoch);
}

/** Puts a filled Redis into service. */
export async function writeEpoch(redis: Redis, epoch: string): Promise<void> {
  await redis.set(keys.epoch, epoch);
}

/** Takes Redis out of service until it is filled. */
export async function removeEpoch(redis: Redis): Promise<void> {
  await redis.del(keys.epoch);
}
