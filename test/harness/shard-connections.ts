import { Cluster, Redis } from 'ioredis';
import { type ShardCount, shardPrefix } from '../../shared/domain/shards.js';
import { atEnd } from './cleanup.js';
import { ENDS_SOON } from './redis-client.js';
import { ON_CLUSTER } from './redis-mode.js';

/** Connects to each shard of an installation, with its prefix. @param url REDIS_URL, of a cluster or of a server */
export function connectToShards(url: string, shards: ShardCount): (Redis | Cluster)[] {
  const nodes = url.replace('redis+cluster://', '').split(',');
  const connections = Array.from({ length: shards }, (_, shard) => {
    const keyPrefix = shardPrefix(shard, shards, ON_CLUSTER);
    if (!ON_CLUSTER) return new Redis(url, { ...ENDS_SOON, keyPrefix });
    return new Cluster(
      nodes.map((node) => `redis://${node}`),
      { keyPrefix },
    );
  });
  atEnd('connections to shards', () => {
    for (const redis of connections) redis.disconnect();
  });
  return connections;
}
