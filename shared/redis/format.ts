import type { Redis } from 'ioredis';
import { FORMAT } from '../domain/format.js';
import { keys } from './keys.js';

/** Reads the format of the data in a shard if it is another one; 0 = they have no number, null = they have this one. */
export async function readForeignFormat(redis: Redis): Promise<number | null> {
  const [text, data] = await Promise.all([
    redis.get(keys.format),
    redis.exists(keys.epoch, keys.journal, keys.directory),
  ]);
  if (text === null) return data === 0 ? null : 0;
  return Number(text) === FORMAT ? null : Number(text);
}
