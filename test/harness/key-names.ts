import type { Redis } from 'ioredis';

/** Names of the keys that match, without the prefix of the shard, which clients do not add to patterns. */
export async function keyNames(redis: Redis, pattern = '*'): Promise<string[]> {
  const prefix = redis.options.keyPrefix ?? '';
  return (await redis.keys(`${prefix}${pattern}`)).map((name) => name.slice(prefix.length));
}
