import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { from as copyFrom } from 'pg-copy-streams';
import { ACTORS } from '../../shared/domain/actors.js';
import { Refused } from '../../shared/errors/faults.js';
import { PSEUDONYM } from '../../shared/postgres/erasures.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import { keepEpoch, readRegionState } from '../../shared/postgres/region-state.js';
import { JOURNAL_FILE, type Manifest } from './manifest.js';
import { quoted, readSequences, readTables } from './tables.js';

const LOCK_MS = 2_000;
const LOCK_ATTEMPTS = 20;
/** deadlock_detected, lock_not_available */
const IN_USE = ['40P01', '55P03'];
/** Tables that say which rows belong to an erased user, with the id of a row within its campaign. */
const OF_ERASED = [
  ['redemptions', 'redemption_id'],
  ['waiting_tickets', 'line_no'],
] as const;

type Client = Parameters<Parameters<Database['withClient']>[0]>[0];

/** What a database has. */
export type Contents = { campaigns: number; reservations: number; keys: number; bans: number };

export async function readContents(database: Queryable): Promise<Contents> {
  const { rows } = await database.query<Contents>(
    `select (select count(*)::int from campaigns) as campaigns,
       (select count(*)::int from redemptions) as reservations, (select count(*)::int from api_keys) as keys,
       (select count(*)::int from bans) as bans`,
  );
  return rows[0] as Contents;
}

/**
 * Replaces all rows by those of a backup, in one transaction: an interrupted restore has changed nothing. The schema
 * must be that of the backup; tables that only the backup has are of another program, and left out. Triggers are off
 * meanwhile, because counts and versions are rows of the backup too; the constraints of the schema are checked.
 * @param report called after each table
 * @throws Refused when the backup lacks a table of the database
 */
export async function restoreDatabase(
  database: Database,
  folder: string,
  manifest: Manifest,
  report: (name: string, rows: number) => void,
): Promise<void> {
  await database.withClient(async (client) => {
    await client.query('set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0');
    const names = (await readTables(client)).map(({ name }) => name);
    const inBackup = new Set(manifest.tables.map(({ name }) => name));
    const differing = names.filter((name) => !inBackup.has(name));
    if (differing.length > 0) throw new Refused(`the backup lacks tables of the database: ${differing.join(', ')}`);
    const sequences = await readSequences(client);
    await lockTables(client, names);
    const { region, epoch } = await readRegionState(client);
    await rememberErased(client);
    await switchTriggers(client, 'disable');
    await client.query(`truncate ${names.map(quoted).join(', ')}`);
    for (const table of manifest.tables) {
      if (!names.includes(table.name)) {
        report(`${table.name} (left out: another program has put it into the database of the backup)`, 0);
        continue;
      }
      await fillTable(client, folder, table);
      report(table.name, table.rows);
    }
    for (const [name, last] of Object.entries(manifest.sequences)) {
      if (sequences[name] === undefined) continue;
      if (last === null) await client.query(`alter sequence ${quoted(name)} restart`);
      else await client.query('select setval($1::regclass, $2)', [quoted(name), last]);
    }
    // The other regions know the epoch, so with an earlier one this installation would not own its region.
    if (region !== null) await keepEpoch(client, region, epoch ?? 0);
    await switchTriggers(client, 'enable');
    // Until autovacuum comes, Postgres would choose plans for small tables.
    await client.query(`analyze ${names.map(quoted).join(', ')}`);
    const again = await eraseAgain(client);
    if (again > 0) report('erasures (users who were erased since the backup; a worker erases them again)', again);
  });
}

/** Remembers what belongs to erased users, without campaigns whose users `PERSONAL_DATA_KEEP_DAYS` replaces. */
async function rememberErased(client: Client): Promise<void> {
  for (const [table, id] of OF_ERASED)
    await client.query(
      `create temporary table erased_${table} on commit drop as select t.campaign_id, t.${id} as id from ${table} t
       join campaigns c using (campaign_id)
       where t.user_id ~ '${PSEUDONYM.source}' and c.personal_data_cursor = '' and c.personal_data_removed_at is null`,
    );
}

/** Asks for the erasure of the users whom the backup still has. @returns how many they are */
async function eraseAgain(client: Client): Promise<number> {
  const users = OF_ERASED.map(
    ([table, id]) => `select t.user_id from ${table} t
      join erased_${table} e on e.campaign_id = t.campaign_id and e.id = t.${id} where t.user_id !~ $1`,
  );
  const { rowCount } = await client.query(
    `insert into erasures (erasure_id, user_id, pseudonym, actor, in_open_campaigns)
     select gen_random_uuid(), user_id, 'erased-' || gen_random_uuid(), $2, true from (${users.join(' union ')}) found
     on conflict (user_id) do update set in_open_campaigns = true, next_look_at = now()`,
    [PSEUDONYM.source, ACTORS.restore],
  );
  return rowCount ?? 0;
}

/**
 * Locks all tables. Processes that run write meanwhile and lock tables in another order, so an attempt that meets a
 * deadlock or waits too long is repeated.
 * @throws Refused when the tables stay in use
 */
async function lockTables(client: Client, names: readonly string[]): Promise<void> {
  await client.query(`set local lock_timeout = ${LOCK_MS}`);
  for (let attempt = 1; attempt <= LOCK_ATTEMPTS; attempt += 1) {
    await client.query('savepoint before_locks');
    try {
      await client.query(`lock table ${names.map(quoted).join(', ')} in access exclusive mode`);
      await client.query('set local lock_timeout = 0');
      return;
    } catch (error) {
      if (!IN_USE.includes(String((error as { code?: unknown }).code))) throw error;
      await client.query('rollback to savepoint before_locks');
    }
  }
  throw new Refused('its tables are in use; stop the APIs and the workers, and repeat the command');
}

/** Switches the triggers of this schema, those of partitions too. Constraints are no triggers of this kind. */
async function switchTriggers(client: Client, how: 'disable' | 'enable'): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select c.relname as name from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
     order by c.relispartition, c.relname`,
  );
  for (const { name } of rows) await client.query(`alter table ${quoted(name)} ${how} trigger user`);
}

/** Fills a table from a file. A row that an earlier file has is left out: a journal entry may be recovered already. */
async function fillTable(
  client: Client,
  folder: string,
  { name, columns, file, rows }: Manifest['tables'][number],
): Promise<void> {
  const list = columns.map(quoted).join(', ');
  const isJournal = file === JOURNAL_FILE;
  const target = isJournal ? 'journal_of_backup' : quoted(name);
  if (isJournal)
    await client.query(
      `create temporary table ${target} on commit drop as select ${list} from ${quoted(name)} with no data`,
    );
  const fill = client.query(copyFrom(`copy ${target} (${list}) from stdin`));
  await pipeline(createReadStream(join(folder, file)), createGunzip(), fill);
  if (fill.rowCount !== rows) throw new Error(`${name} got ${fill.rowCount} of ${rows} rows`);
  if (isJournal)
    await client.query(
      `insert into ${quoted(name)} (${list}) select ${list} from ${target} on conflict (journal_id) do nothing`,
    );
}
