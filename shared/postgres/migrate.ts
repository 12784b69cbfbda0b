import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import knex, { type Knex } from 'knex';
import pg from 'pg';

const FOLDER = fileURLToPath(new URL('../../migrations/', import.meta.url));

/** Names migrations without the file's ending, so that sources and compiled files are the same migration. */
const migrationSource: Knex.MigrationSource<string> = {
  async getMigrations() {
    const files = await readdir(FOLDER);
    return files.filter((file) => /^\d{4}_\w+\.(ts|js)$/.test(file)).sort();
  },
  getMigrationName: (file) => file.replace(/\.(ts|js)$/, ''),
  getMigration: (file) => import(pathToFileURL(join(FOLDER, file)).href) as Promise<Knex.Migration>,
};

/** Named by number; any number that is not used otherwise would do. */
const MIGRATION_LOCK = 7_102_002;
const TABLE = { tableName: 'schema_migrations' };

/**
 * Applies what is missing, each migration in a transaction of its own. Two at once wait for each other by an advisory lock,
 * which dies with its process; knex's own lock is a row that would outlive a killed one, so it is freed under ours.
 * @returns names of the migrations applied now
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
