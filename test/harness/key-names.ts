import { Cluster, type Redis } from 'ioredis';

/** Names of the keys that match, without the prefix of the shard, which clients do not add to patterns. */
export async function keyNames(redis: Redis | Cluster, pattern = '*'): Promise<string[]> {
  const prefix = redis.options.keyPrefix ?? '';
  const servers = redis instanceof Cluster ? redis.nodes('master') : [redis];
  const names = await Promise.all(servers.map((server) => server.keys(`${prefix}${pattern}`)));
  return names.flat().map((name) => name.slice(prefix.length));
}
