import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import knex, { type Knex } from 'knex';

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

/**
 * Applies what is missing, each migration in a transaction of its own, under knex's lock.
 * @returns names of the migrations applied now
 */
export async function migrateToLatest(databaseUrl: string): Promise<string[]> {
  const database = knex({ client: 'pg', connection: databaseUrl, pool: { min: 0, max: 2 } });
  try {
    const [, applied] = (await database.migrate.latest({ migrationSource, tableName: 'schema_migrations' })) as [
      number,
      string[],
    ];
    return applied.map((file) => file.replace(/\.(ts|js)$/, ''));
  } finally {
    await database.destroy();
  }
}
