import type { Redis } from 'ioredis';

/** XTRIM MINID and ZADD's options that the scripts need. */
const OLDEST_VERSION = [6, 2] as const;

/**
 * What is wrong with this Redis, each with its remedy; empty when it will do. Asked through INFO, which managed services allow
 * as well.
 * @param production persistence is only required there
 */
export async function shapeProblems(redis: Redis, production: boolean): Promise<string[]> {
  const info = parseInfo(await redis.info());
  const problems: string[] = [];
  const version = info.get('redis_version') ?? '0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < OLDEST_VERSION[0] || (major === OLDEST_VERSION[0] && minor < OLDEST_VERSION[1])) {
    problems.push(`Redis is ${version}; ${OLDEST_VERSION.join('.')} or newer is needed. Remedy: upgrade it.`);
  }
  const policy = info.get('maxmemory_policy') ?? 'unknown';
  if (policy !== 'noeviction') {
    problems.push(
      `Redis may evict keys (maxmemory-policy is ${policy}), which would lose promises. ` +
        'Remedy: redis-cli CONFIG SET maxmemory-policy noeviction, and in its configuration.',
    );
  }
  if (production && info.get('aof_enabled') !== '1') {
    problems.push(
      'Redis does not write an append-only file, so a restart would lose promises. ' +
        'Remedy: redis-cli CONFIG SET appendonly yes, and `appendonly yes`, `appendfsync always` in its configuration.',
    );
  }
  return problems;
}

function parseInfo(text: string): Map<string, string> {
  return new Map(
    text
      .split(/\r?\n/)
      .filter((line) => line.includes(':'))
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)] as const),
  );
}
