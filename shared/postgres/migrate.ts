import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import knex, { type Knex } from 'knex';
import pg from 'pg';
import { PROCESS_VERSION } from './journal-histories.js';

const FOLDER = fileURLToPath(new URL('../../migrations/', import.meta.url));

type Migration = Knex.Migration & { config?: { transaction: boolean } };

/** Names migrations without the file extension, so that a source and its compiled file are the same migration. */
const migrationSource: Knex.MigrationSource<string> = {
  async getMigrations() {
    const files = await readdir(FOLDER);
    return files.filter((file) => /^\d{4}_\w+\.(ts|js)$/.test(file)).sort();
  },
  getMigrationName: (file) => file.replace(/\.(ts|js)$/, ''),
  getMigration: async (file) => {
    const migration = (await import(pathToFileURL(join(FOLDER, file)).href)) as Migration;
    if (migration.config?.transaction === false) return migration;
    return {
      ...migration,
      up: async (database) => {
        await database.raw(UNLIMITED);
        await migration.up(database);
      },
    };
  },
};

/** Number of the advisory lock. Any number works that no other code uses. */
const MIGRATION_LOCK = 7_102_002;
const RETRY_MS = 100;
const TABLE = { tableName: 'schema_migrations' };
/** Lifts limits of the role for one transaction. A setting of the session would reach other clients of a pooler. */
const UNLIMITED = 'set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0';

/** Without a report for a minute, a process counts as ended. */
const EARLIER_PROCESSES = `select count(*)::int as count from journal_processes
  where version < ? and seen_at > clock_timestamp() - interval '1 minute'
    and exists (select 1 from pg_class where oid = 'redemptions'::regclass and relkind = 'r')`;

export type Migrated = { applied: string[]; earlier: number };

/**
 * Applies missing migrations. Concurrent calls wait for each other by an advisory lock of a transaction, which is
 * released when its process dies, and which a pooler in transaction mode keeps on one connection. The lock of knex is a
 * row that would survive a killed process, so it is released while this lock is held.
 * Afterwards it partitions `redemptions`, unless a process of an earlier version is alive.
 * @returns the names of the migrations that were applied, and how many processes keep `redemptions` from its partitions
 * @throws when the lock is lost, because another process may hold it by then; the running migration is rolled back
 */
export async function migrateToLatest(databaseUrl: string): Promise<Migrated> {
  const lock = new pg.Client(databaseUrl);
  const lost = new Promise<never>((_, reject) => {
    lock.on('error', (error) => reject(new Error(`the migration lock was lost: ${error.message}`)));
  });
  // The rejection is handled by the race below, which may not have begun.
  lost.catch(() => {});
  await lock.connect();
  const database = knex({ client: 'pg', connection: databaseUrl, pool: { min: 0, max: 2 } });
  try {
    await lock.query(`begin; ${UNLIMITED}`);
    while (!(await isLocked(lock))) await sleep(RETRY_MS);
    return await Promise.race([migrate(database), lost]);
  } finally {
    await Promise.all([database.destroy(), lock.end()]);
  }
}

/**
 * Tries to take the lock. A statement that waited for it would keep its snapshot meanwhile, and an index that is built
 * concurrently waits for every snapshot; the driver keeps one of a statement with parameters, too.
 */
async function isLocked(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>(
    `select pg_try_advisory_xact_lock(${MIGRATION_LOCK}) as taken`,
  );
  return rows[0]?.taken === true;
}

async function migrate(database: Knex): Promise<Migrated> {
  await database.migrate.forceFreeMigrationsLock(TABLE);
  const [, applied] = (await database.migrate.latest({ migrationSource, ...TABLE })) as [number, string[]];
  const earlier = await database.transaction(async (transaction) => {
    await transaction.raw(UNLIMITED);
    const { rows } = await transaction.raw(EARLIER_PROCESSES, [PROCESS_VERSION]);
    if (rows[0].count === 0) await transaction.raw('select redemptions_partition()');
    return rows[0].count as number;
  });
  return { applied: applied.map((file) => file.replace(/\.(ts|js)$/, '')), earlier };
}
