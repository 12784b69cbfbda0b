import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import knex, { type Knex } from 'knex';
import pg from 'pg';

const FOLDER = fileURLToPath(new URL('../../migrations/', import.meta.url));

/** Names migrations without the file extension, so that a source and its compiled file are the same migration. */
const migrationSource: Knex.MigrationSource<string> = {
  async getMigrations() {
    const files = await readdir(FOLDER);
    return files.filter((file) => /^\d{4}_\w+\.(ts|js)$/.test(file)).sort();
  },
  getMigrationName: (file) => file.replace(/\.(ts|js)$/, ''),
  getMigration: (file) => import(pathToFileURL(join(FOLDER, file)).href) as Promise<Knex.Migration>,
};

/** Number of the advisory lock. Any number works that no other code uses. */
const MIGRATION_LOCK = 7_102_002;
const TABLE = { tableName: 'schema_migrations' };

/**
 * Applies missing migrations, each in a transaction of its own. Concurrent calls wait for each other by an advisory
 * lock, which is released when its process dies. The lock of knex is a row that would survive a killed process, so it
 * is released while this lock is held.
 * @returns the names of the migrations that were applied
 */
export async function migrateToLatest(databaseUrl: string): Promise<string[]> {
  const lock = new pg.Client(databaseUrl);
  await lock.connect();
  const database = knex({ client: 'pg', connection: databaseUrl, pool: { min: 0, max: 2 } });
  try {
    await lock.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await database.migrate.forceFreeMigrationsLock(TABLE);
    const [, applied] = (await database.migrate.latest({ migrationSource, ...TABLE })) as [number, string[]];
    return applied.map((file) => file.replace(/\.(ts|js)$/, ''));
  } finally {
    await database.destroy();
    await lock.end();
  }
}
