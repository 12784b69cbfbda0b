import type { Redis } from 'ioredis';
import { uuidv7 } from 'uuidv7';
import { keys } from './keys.js';

/** The id of this incarnation of Redis; gives one to a fresh Redis. Whoever asks first, all get the same. */
export async function currentEpoch(redis: Redis): Promise<string> {
  await redis.set(keys.epoch, uuidv7(), 'NX');
  const epoch = await redis.get(keys.epoch);
  if (!epoch) throw new Error('Redis lost its epoch while it was read');
  return epoch;
}
