import { type ShardCount, shardPrefix } from '../domain/shards.js';
import { ForeignFormat } from '../errors/faults.js';
import { connectForCommands } from './connections.js';
import { readForeignFormat } from './format.js';
import { inspectRedis, isClusterNode, type RedisRequirements, type RedisSetup } from './redis-requirements.js';
import type { RedisTarget } from './redis-target.js';

const CONNECT_MS = 2_000;
const LIMITS = { commandMs: CONNECT_MS, connectMs: CONNECT_MS };

/** The configuration of Redis could lose promises. The message has one line per problem, with its remedy. */
export class UnsuitableRedis extends Error {
  override readonly name = 'UnsuitableRedis';
}

export type InstallationRequirements = Omit<RedisRequirements, 'onCluster'> & { shards: ShardCount };

/**
 * Checks the Redis of each shard once before a process starts. Returns null if none replies: Redis may be starting, and
 * the gate of a shard checks its server again after the connection.
 * @throws UnsuitableRedis
 */
export async function requireRedis(
  target: RedisTarget,
  { production, waitReplicas, shards }: InstallationRequirements,
): Promise<RedisSetup | null> {
  await requireCluster(target);
  const onCluster = target.kind === 'cluster';
  const found = await Promise.all(
    prefixesOf(target, shards).map((prefix) => setupOf(target, prefix, { production, waitReplicas, onCluster })),
  );
  const setups = [...new Map(found.flatMap((one) => (one ? [[one.address, one]] : []))).values()];
  const [first] = setups;
  if (!first) return null;
  const named = (which: 'problems' | 'warnings') =>
    setups.flatMap((one) => one[which].map((text) => (onCluster ? `${one.address}: ${text}` : text)));
  const problems = named('problems');
  if (problems.length > 0) throw new UnsuitableRedis(problems.join('\n'));
  return { ...first, problems, warnings: named('warnings') };
}

/**
 * Checks only the format of the data in each shard that replies.
 * @throws ForeignFormat
 */
export async function requireRedisFormat(target: RedisTarget, shards: ShardCount): Promise<void> {
  const found = await Promise.all(prefixesOf(target, shards).map((prefix) => ask(target, prefix, readForeignFormat)));
  const foreign = found.find((format) => format !== null);
  if (foreign !== undefined) throw new ForeignFormat('Redis', Number(foreign));
}

function prefixesOf(target: RedisTarget, shards: ShardCount): string[] {
  const [onCluster, namespace] = target.kind === 'cluster' ? [true, target.namespace] : [false, ''];
  return Array.from({ length: shards }, (_, i) => shardPrefix(i, shards, onCluster, namespace));
}

/**
 * Without this check, a process would look for the slots of a server that has none for as long as it runs.
 * @throws UnsuitableRedis when a node in the URL of a cluster is a single server
 */
async function requireCluster(target: RedisTarget): Promise<void> {
  if (target.kind !== 'cluster') return;
  const { nodes, tls, username, password } = target;
  const isNode = await Promise.all(
    nodes.map((server) => ask({ kind: 'server', server, db: 0, tls, username, password }, '', isClusterNode)),
  );
  const lone = nodes.find((_, i) => isNode[i] === false);
  if (!lone) return;
  const scheme = tls ? 'rediss' : 'redis';
  throw new UnsuitableRedis(
    `REDIS_URL names a cluster, but ${lone.host}:${lone.port} is a single server (cluster-enabled is no). ` +
      `Remedy: REDIS_URL=${scheme}://${lone.host}:${lone.port}, or the addresses of nodes of a cluster.`,
  );
}

/** Returns the setup of the server that has the keys with this prefix, and its address; null = it does not reply. */
function setupOf(
  target: RedisTarget,
  prefix: string,
  requirements: RedisRequirements,
): Promise<(RedisSetup & { address: string }) | null> {
  return ask(target, prefix, async (redis) => {
    const { remoteAddress, remotePort } = redis.stream as { remoteAddress?: string; remotePort?: number };
    return { ...(await inspectRedis(redis, requirements)), address: `${remoteAddress}:${remotePort}` };
  });
}

/** Connects once. Returns null if the server does not reply in time. */
async function ask<Value>(
  target: RedisTarget,
  prefix: string,
  question: (redis: ReturnType<typeof connectForCommands>) => Promise<Value>,
): Promise<Value | null> {
  const redis = connectForCommands(target, LIMITS, () => {}, prefix);
  let limit: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      redis.once('ready', resolve);
      redis.once('error', reject);
      // A cluster without a primary for the slot is asked again and again.
      limit = setTimeout(reject, CONNECT_MS, new Error('no server replies'));
    });
    return await question(redis);
  } catch {
    return null;
  } finally {
    clearTimeout(limit);
    redis.disconnect();
  }
}
