import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunningEngine } from '../../scripts/engines/engine.js';
import { startPostgres } from '../../scripts/engines/postgres.mjs';
import { waitForLock } from '../../scripts/lock.mjs';
import { migrateToLatest } from '../../shared/postgres/migrate.js';
import { freePort } from './free-port.js';
import { keepLogFile } from './kept-logs.js';

const PASSWORD = 'stage';

/**
 * Starts a migrated Postgres that a test may kill. It writes to disk as in production. The first start copies a cluster
 * that the first stage of a run makes: creating and migrating one takes seconds of CPU.
 * @param port null = a free one
 */
export async function startStagePostgres(dataDir: string, port: number | null): Promise<RunningEngine> {
  if (!existsSync(dataDir)) execFileSync('cp', ['-a', await migratedCluster(), dataDir]);
  keepLogFile('postgres', `${dataDir}.log`);
  return startPostgres({ dataDir, password: PASSWORD, port: port ?? (await freePort()) });
}

/** @returns the folder of a cluster that is migrated and stopped */
async function migratedCluster(): Promise<string> {
  const cluster = join(String(process.env.DOORBUSTER_TEST_DIR), 'migrated-cluster');
  const release = await waitForLock(`${cluster}.lock`, { limitMs: 120_000, say() {} });
  try {
    if (!existsSync(cluster)) await makeCluster(cluster);
  } finally {
    release();
  }
  return cluster;
}

async function makeCluster(cluster: string): Promise<void> {
  const draft = `${cluster}-draft`;
  const postgres = await startPostgres({ dataDir: draft, password: PASSWORD, port: await freePort() });
  await migrateToLatest(postgres.url);
  await postgres.stop();
  await rename(draft, cluster);
}
