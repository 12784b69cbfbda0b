import { spawnSync } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import type { RunningEngine } from '../../scripts/engines/engine.js';
import { startPostgres } from '../../scripts/engines/postgres.mjs';
import { freePort } from './free-port.js';

/**
 * Starts a streaming replica of a running Postgres, from a copy of its files that is made while it runs.
 * @param folders of the primary, and of the replica to be
 */
export async function startPostgresReplica(
  primary: RunningEngine,
  folders: { primary: string; replica: string },
): Promise<RunningEngine> {
  const { username, password, hostname, port } = new URL(primary.url);
  const client = new pg.Client(primary.url);
  await client.connect();
  try {
    await client.query("select pg_backup_start('replica', true)");
    copyWhileItRuns(folders.primary, folders.replica);
    const { rows } = await client.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)');
    for (const name of ['postmaster.pid', 'postmaster.opts']) await rm(join(folders.replica, name), { force: true });
    await writeFile(join(folders.replica, 'backup_label'), String(rows[0]?.labelfile));
    await writeFile(join(folders.replica, 'standby.signal'), '');
  } finally {
    await client.end();
  }
  const source = `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`;
  return startPostgres({
    dataDir: folders.replica,
    port: await freePort(),
    password: decodeURIComponent(password),
    extraArgs: [`primary_conninfo=${source}`, 'hot_standby=on'],
  });
}

/** A running Postgres removes files; the log that it writes meanwhile has what they held. */
function copyWhileItRuns(from: string, to: string): void {
  const { stderr, status } = spawnSync('cp', ['-a', from, to], {
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C' },
  });
  const others = stderr.split('\n').filter((line) => line !== '' && !line.endsWith('No such file or directory'));
  if (others.length > 0 || status === null) throw new Error(`the copy of ${from} failed: ${others.join('; ')}`);
}
