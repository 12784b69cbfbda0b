import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import slotOf from 'cluster-key-slot';
import { Redis } from 'ioredis';
import pg from 'pg';
import { uuidv7 } from 'uuidv7';
import type { RunningEngine } from '../../scripts/engines/engine.js';
import { startRedis } from '../../scripts/engines/redis.mjs';
import { shardPrefix } from '../../shared/domain/shards.js';
import { atEnd } from './cleanup.js';
import { NO_FAILOVER_MS, RedisCluster } from './cluster.js';
import { freePort } from './free-port.js';
import { keepLogFile } from './kept-logs.js';
import { EngineProxy } from './proxy.js';
import { ENDS_SOON } from './redis-client.js';
import { ON_CLUSTER } from './redis-mode.js';

export type TestRedis = RunningEngine & {
  dataDir: string;
  /** Adds the prefix of the shard to keys, as the product's connections do. */
  client: Redis;
  /** What precedes the keys of the shard; "" = nothing, on a single server. */
  prefix: string;
};

type StartTestRedis = (extraArgs?: readonly string[]) => Promise<TestRedis>;

/**
 * A Redis of its own for a test file: isolation by process, not by flushing. With `npm test -- --redis cluster` it is a
 * cluster with one shard: `url` names the cluster, and everything else is about the primary of that shard.
 * @param extraArgs for each server
 */
export const startTestRedis: StartTestRedis = (extraArgs = ['--appendfsync', 'no']) =>
  ON_CLUSTER ? startTestCluster(extraArgs) : startTestServer(extraArgs);

/** A single server in every run of the suite, for tests that build something of servers themselves. */
export async function startTestServer(extraArgs: readonly string[] = ['--appendfsync', 'no']): Promise<TestRedis> {
  const dataDir = await mkdtemp(join(tmpdir(), 'doorbuster-redis-'));
  const binary = process.env.DOORBUSTER_TEST_REDIS_BINARY;
  keepLogFile('redis', join(dataDir, 'redis.log'));
  const engine = await startRedis({ dataDir, port: await freePort(), extraArgs, ...(binary ? { binary } : {}) });
  const client = connectTo(engine, '');
  atEnd('Redis', async () => {
    client.disconnect();
    await engine.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  return { ...engine, url: await slowed(engine.url), dataDir, client, prefix: '' };
}

async function startTestCluster(extraArgs: readonly string[]): Promise<TestRedis> {
  const cluster = await RedisCluster.start({ nodeTimeoutMs: NO_FAILOVER_MS, extraArgs });
  const prefix = shardPrefix(0, 1, true);
  const { engine, folder } = await cluster.primaryOf(slotOf(prefix));
  const client = connectTo(engine, prefix);
  atEnd('a client of the primary', () => client.disconnect());
  return { ...engine, url: cluster.url, dataDir: folder, client, prefix };
}

export function connectTo(engine: RunningEngine, keyPrefix: string): Redis {
  const client = new Redis(engine.url, { ...ENDS_SOON, maxRetriesPerRequest: null, keyPrefix });
  client.on('error', () => {
    // Fault tests end Redis on purpose; a command that fails says so itself.
  });
  return client;
}

/**
 * A database of its own, whose files are copied: writing each page to the log of Postgres as well, the default, takes
 * twice the CPU time. `url`: as the product connects to it, through PgBouncer under `npm test -- --pgbouncer`; the
 * client is connected directly.
 * @param template null = an empty one; without it a migrated one
 */
export async function createTestDatabase(
  template: string | null = String(process.env.DOORBUSTER_TEST_TEMPLATE),
): Promise<{ url: string; client: pg.Client }> {
  const adminUrl = String(process.env.DOORBUSTER_TEST_DATABASE_URL);
  keepLogFile('postgres-of-all-files', join(String(process.env.DOORBUSTER_TEST_DIR), 'postgres.log'));
  const name = `test_${uuidv7().replaceAll('-', '_')}`;
  const admin = new pg.Client(adminUrl);
  await admin.connect();
  await admin.query(`create database ${name} template ${template ?? 'template0'} strategy file_copy`);
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  const client = new pg.Client(url.href);
  await client.connect();
  atEnd('the database', async () => {
    await client.end();
    await admin.query(`drop database ${name} with (force)`);
    await admin.end();
  });
  const pooler = process.env.DOORBUSTER_TEST_POOLER_URL;
  if (pooler) url.port = new URL(pooler).port;
  return { url: await slowed(url.href), client };
}

/**
 * The URL by which the product reaches an engine: in some settings of `npm test -- --stress`, through a proxy that
 * delays. The nodes of a cluster are reached directly, because they name their own ports.
 */
export async function slowed(url: string): Promise<string> {
  const delayMs = process.env.DOORBUSTER_TEST_ENGINE_DELAY_MS;
  if (delayMs === undefined) return url;
  const through = new URL(url);
  through.port = String((await EngineProxy.before(Number(through.port), Number(delayMs))).port);
  return through.href;
}
