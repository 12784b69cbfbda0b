import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { uuidv7 } from 'uuidv7';
import type { RunningEngine } from '../../scripts/engines/engine.js';
import { startRedis } from '../../scripts/engines/redis.mjs';
import { atEnd } from './cleanup.js';

export type TestRedis = RunningEngine & { dataDir: string; client: Redis };

/** A Redis of its own for a test file: isolation by process, not by flushing. */
export async function startTestRedis(extraArgs: readonly string[] = ['--appendfsync', 'no']): Promise<TestRedis> {
  const dataDir = await mkdtemp(join(tmpdir(), 'doorbuster-redis-'));
  const binary = process.env.DOORBUSTER_TEST_REDIS_BINARY;
  const engine = await startRedis({ dataDir, extraArgs, ...(binary ? { binary } : {}) });
  const client = new Redis(engine.url, { maxRetriesPerRequest: null });
  client.on('error', () => {
    // Fault tests end Redis on purpose; a command that fails says so itself.
  });
  atEnd('Redis', async () => {
    client.disconnect();
    await engine.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  return { ...engine, dataDir, client };
}

/**
 * A database of its own. `url`: as the product connects to it, through PgBouncer under `npm test -- --pgbouncer`; the
 * client is connected directly.
 * @param template null = an empty one; without it a migrated one
 */
export async function createTestDatabase(
  template: string | null = String(process.env.DOORBUSTER_TEST_TEMPLATE),
): Promise<{ url: string; client: pg.Client }> {
  const adminUrl = String(process.env.DOORBUSTER_TEST_DATABASE_URL);
  const name = `test_${uuidv7().replaceAll('-', '_')}`;
  const admin = new pg.Client(adminUrl);
  await admin.connect();
  await admin.query(`create database ${name} template ${template ?? 'template0'}`);
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
  return { url: url.href, client };
}
