import type { Redis } from 'ioredis';
import { foreignFormat } from '../domain/format.js';
import { readForeignFormat } from './format.js';

/** The first version with XADD <generation>-*, where Redis numbers the entries of a generation. */
const OLDEST_VERSION = [7, 0] as const;

export type RedisRequirements = {
  /** Whether promises must be protected, as in production. */
  production: boolean;
  /** REDIS_WAIT_REPLICAS. */
  waitReplicas: number;
  /** Whether REDIS_URL names a cluster. */
  onCluster: boolean;
};

/** How a promise survives the loss of the primary: on its disk, on replicas, on both, or not at all. */
export type Protection = 'disk' | 'replicas' | 'disk and replicas' | 'none';

export type RedisSetup = {
  /** Problems that forbid calls to this Redis, each with its remedy; empty = suitable. */
  problems: readonly string[];
  /** Current deficiencies that do not endanger promises. */
  warnings: readonly string[];
  protection: Protection;
  /** For the log: `promises are protected by …`. */
  summary: string;
};

/** Inspects Redis through INFO, which managed services allow, and CONFIG GET, which many of them refuse. */
export async function inspectRedis(redis: Redis, requirements: RedisRequirements): Promise<RedisSetup> {
  const [info, appendfsync, fullCoverage] = await Promise.all([
    redis.info(),
    readSetting(redis, 'appendfsync'),
    requirements.onCluster ? readSetting(redis, 'cluster-require-full-coverage') : null,
  ]);
  const fields = parseInfo(info);
  const setup = judgeRedis(fields, { appendfsync, fullCoverage }, requirements);
  // A node of a cluster refuses keys without the tag of a shard.
  if (!requirements.onCluster && isNode(fields)) return setup;
  const foreign = await readForeignFormat(redis);
  return foreign === null ? setup : { ...setup, problems: [foreignFormat('Redis', foreign), ...setup.problems] };
}

/** What CONFIG GET returns; null = unknown, because managed services refuse it. */
export type RedisSettings = { appendfsync: string | null; fullCoverage?: string | null };

/** Whether a server is a node of a cluster. */
export async function isClusterNode(redis: Redis): Promise<boolean> {
  return isNode(parseInfo(await redis.info('cluster')));
}

const isNode = (info: ReadonlyMap<string, string>) => info.get('cluster_enabled') === '1';

/** Compares a Redis with the requirements. */
export function judgeRedis(
  info: ReadonlyMap<string, string>,
  { appendfsync, fullCoverage = null }: RedisSettings,
  { production, waitReplicas, onCluster }: RedisRequirements,
): RedisSetup {
  const problems: string[] = [];
  const warnings: string[] = [];
  const version = info.get('redis_version') ?? '0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < OLDEST_VERSION[0] || (major === OLDEST_VERSION[0] && minor < OLDEST_VERSION[1])) {
    problems.push(
      `Redis has version ${version}; ${OLDEST_VERSION.join('.')} or newer is required. Remedy: upgrade it.`,
    );
  }
  if (!onCluster && isNode(info)) {
    problems.push(
      'Redis is a node of a cluster (cluster-enabled is yes), but REDIS_URL does not name a cluster. ' +
        'Remedy: a REDIS_URL that starts with redis+cluster:// or rediss+cluster://.',
    );
  }
  const policy = info.get('maxmemory_policy') ?? 'unknown';
  if (policy !== 'noeviction') {
    problems.push(
      `Redis may evict keys (maxmemory-policy is ${policy}), which would lose promises. ` +
        'Remedy: redis-cli CONFIG SET maxmemory-policy noeviction, and in its configuration.',
    );
  }
  const onDisk = info.get('aof_enabled') === '1' && appendfsync === 'always';
  const protection: Protection =
    waitReplicas > 0 ? (onDisk ? 'disk and replicas' : 'replicas') : onDisk ? 'disk' : 'none';
  if (production && protection === 'none') {
    problems.push(
      `Promises are not protected: ${whyNotOnDisk(info, appendfsync)} and REDIS_WAIT_REPLICAS is 0, so a restart or a ` +
        'failover would lose promises. Remedy: redis-cli CONFIG SET appendonly yes and redis-cli CONFIG SET appendfsync ' +
        'always, and both in its configuration; or two replicas and REDIS_WAIT_REPLICAS=1.',
    );
  }
  const connected = Number(info.get('connected_slaves') ?? 0);
  if (waitReplicas > connected) {
    warnings.push(
      `REDIS_WAIT_REPLICAS is ${waitReplicas} and ${connected} replicas are connected: checkouts are refused until ` +
        'they are. Remedy: start the replicas, or set a smaller REDIS_WAIT_REPLICAS.',
    );
  } else if (waitReplicas > 0 && waitReplicas === connected) {
    warnings.push(
      `REDIS_WAIT_REPLICAS is ${waitReplicas} and only ${connected} replicas are connected: after a failover checkouts ` +
        'are refused until the old primary is back. Remedy: one replica more.',
    );
  }
  if (fullCoverage === 'yes') {
    warnings.push(
      'cluster-require-full-coverage is yes: a primary that is lost with its replicas stops the campaigns of all ' +
        'shards. Remedy: redis-cli CONFIG SET cluster-require-full-coverage no, and in the configuration of each node.',
    );
  }
  return { problems, warnings, protection, summary: summaryOf(protection, waitReplicas) };
}

/** Returns the problems of this Redis, each with its remedy; empty = suitable. */
export async function redisProblems(redis: Redis, requirements: RedisRequirements): Promise<readonly string[]> {
  return (await inspectRedis(redis, requirements)).problems;
}

export function parseInfo(text: string): Map<string, string> {
  return new Map(
    text
      .split(/\r?\n/)
      .filter((line) => line.includes(':'))
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)] as const),
  );
}

/** Returns a setting; null = Redis refuses CONFIG GET, as managed services do. */
async function readSetting(redis: Redis, name: string): Promise<string | null> {
  try {
    const [, value] = (await redis.config('GET', name)) as string[];
    return value ?? null;
  } catch (error) {
    if (error instanceof Error && error.name === 'ReplyError') return null;
    throw error;
  }
}

function whyNotOnDisk(info: ReadonlyMap<string, string>, appendfsync: string | null): string {
  if (info.get('aof_enabled') !== '1') return 'Redis does not write an append-only file';
  if (appendfsync === null)
    return 'Redis does not say whether it writes its append-only file before it replies (CONFIG GET is refused)';
  return `Redis writes its append-only file later than it replies (appendfsync is ${appendfsync})`;
}

function summaryOf(protection: Protection, waitReplicas: number): string {
  const disk = 'the append-only file, written before each reply';
  const replicas = waitReplicas === 1 ? 'one replica' : `${waitReplicas} replicas`;
  switch (protection) {
    case 'disk':
      return `promises are protected by ${disk}`;
    case 'replicas':
      return `promises are protected by ${replicas}`;
    case 'disk and replicas':
      return `promises are protected by ${disk}, and by ${replicas}`;
    case 'none':
      return 'promises are protected by nothing but the memory of Redis and of the API until Postgres has them';
  }
}
