import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import knex, { type Knex } from 'knex';
import pg from 'pg';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import { requireFormat } from './format.js';

const FOLDER = fileURLToPath(new URL('../../migrations/', import.meta.url));

const nameOf = (file: string): string => file.replace(/\.(ts|js)$/, '');

/** Names migrations without the file extension, so that a source and its compiled file are the same migration. */
const migrationSource: Knex.MigrationSource<string> = {
  async getMigrations() {
    const files = await readdir(FOLDER);
    return files.filter((file) => /^\d{4}_\w+\.(ts|js)$/.test(file)).sort();
  },
  getMigrationName: nameOf,
  getMigration: async (file) => {
    const migration = (await import(pathToFileURL(join(FOLDER, file)).href)) as Knex.Migration;
    return {
      ...migration,
      up: async (database) => {
        await database.raw(UNLIMITED);
        await migration.up(database);
      },
    };
  },
};

const RETRY_MS = 100;
const TABLE = { tableName: 'schema_migrations' };
/** Lifts limits of the role for one transaction. A setting of the session would reach other clients of a pooler. */
const UNLIMITED = 'set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0';

/**
 * Applies missing migrations. Concurrent calls wait for each other by an advisory lock of a transaction, which is
 * released when its process dies, and which a pooler in transaction mode keeps on one connection. The lock of knex is a
 * row that would survive a killed process, so it is released while this lock is held.
 * @returns the names of the migrations that were applied
 * @throws ForeignFormat when the database has data of another format; then nothing is changed
 * @throws when the lock is lost, because another process may hold it by then; the running migration is rolled back
 */
export async function migrateToLatest(databaseUrl: string): Promise<string[]> {
  const lock = new pg.Client(databaseUrl);
  const lost = new Promise<never>((_, reject) => {
    lock.on('error', (error) => reject(new Error(`the migration lock was lost: ${error.message}`)));
  });
  // The rejection is handled by the race below, which may not have begun.
  lost.catch(() => {});
  await lock.connect();
  const database = knex({ client: 'pg', connection: databaseUrl, pool: { min: 0, max: 2 } });
  try {
    while (!(await beginLocked(lock))) await sleep(RETRY_MS);
    await requireFormat(lock);
    return await Promise.race([migrate(database), lost]);
  } finally {
    await Promise.all([database.destroy(), lock.end()]);
  }
}

/**
 * Begins a transaction that holds the lock, unless another process holds it. An index that is built concurrently waits
 * for the end of each transaction that has a snapshot at that moment. So a try that failed ends its transaction: the
 * process that holds the lock would wait for this one for ever. And the statement has no parameters, because the driver
 * keeps the snapshot of one that has.
 */
async function beginLocked(client: pg.Client): Promise<boolean> {
  // The types lack the results of several statements.
  const results: unknown = await client.query(
    `begin; ${UNLIMITED}; select pg_try_advisory_xact_lock(${ADVISORY_LOCKS.migration}) as taken`,
  );
  const isTaken = (results as pg.QueryResult<{ taken: boolean }>[]).at(-1)?.rows[0]?.taken === true;
  if (!isTaken) await client.query('rollback');
  return isTaken;
}

async function migrate(database: Knex): Promise<string[]> {
  await database.migrate.forceFreeMigrationsLock(TABLE);
  const [, applied] = (await database.migrate.latest({ migrationSource, ...TABLE })) as [number, string[]];
  return applied.map(nameOf);
}
