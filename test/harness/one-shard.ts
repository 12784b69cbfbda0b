import type { Redis } from 'ioredis';
import type { RedisGate } from '../../shared/redis/gate.js';
import type { CallerShard, CallerShards } from '../../shared/shards/shards.js';

/** A gate that is always open. */
export const openGate = { guard: <Value>(call: () => Promise<Value>) => call() } as unknown as RedisGate;

/** The only shard of an installation, for parts that place data about callers. */
export function oneShard(commands: Redis, gate: RedisGate = openGate): CallerShards {
  const shard: CallerShard = { index: 0, commands, gate };
  return { all: [shard], spread: () => shard };
}
