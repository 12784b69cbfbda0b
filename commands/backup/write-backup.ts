import { createHash } from 'node:crypto';
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createGzip } from 'node:zlib';
import { to as copyTo } from 'pg-copy-streams';
import { FORMAT, foreignFormat } from '../../shared/domain/format.js';
import { Refused } from '../../shared/errors/faults.js';
import { readFormat } from '../../shared/postgres/format.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { CommandShards } from '../command-shards.js';
import { JOURNAL_FILE, MANIFEST, type Manifest } from './manifest.js';
import { quoted, readSequences, readTables, type Table } from './tables.js';
import { RECOVERED_COLUMNS, unpersistedRows } from './unpersisted-rows.js';

export type WrittenTable = Manifest['tables'][number];
type Client = Parameters<Parameters<Database['withClient']>[0]>[0];

/**
 * Writes all tables as they are at one moment into a new or empty folder, and before them the journal entries that
 * Postgres lacks. So everything that was promised before the call is in the backup, whether or not a worker runs. The
 * service goes on meanwhile. An unfinished backup is in a folder in it (`.partial`), which the next one removes.
 * @param shards null = without the journals of Redis
 * @param report called after each table
 * @throws Refused when the folder has files already, another backup writes it, or the database has no schema
 */
export async function writeBackup(
  database: Database,
  shards: CommandShards | null,
  folder: string,
  serviceVersion: string,
  report: (table: WrittenTable) => void,
): Promise<Manifest> {
  return database.withClient((client) =>
    writeFiles(client, shards, folder, serviceVersion, report).catch((error) => {
      throw FILE_ERRORS.test(error.code) ? new Error(error.message, { cause: error }) : error;
    }),
  );
}

/** The folder of an unfinished backup, in that of the backup. */
const PARTIAL = '.partial';
const TABLE_FILE = '.copy.gz';
/** Codes of errors of files, which the pool would take for errors of its connection. */
const FILE_ERRORS = /^E(ACCES|BUSY|DQUOT|EXIST|FBIG|IO|ISDIR|MFILE|NOENT|NOSPC|NOTDIR|PERM|ROFS)$/;

async function writeFiles(
  client: Client,
  shards: CommandShards | null,
  folder: string,
  serviceVersion: string,
  report: (table: WrittenTable) => void,
): Promise<Manifest> {
  // Waits for a restore that runs. What it has emptied would be empty for a transaction that began before its end.
  await requireOwnFormat(client);
  await client.query(WITHOUT_LIMITS);
  const draft = await prepareFolder(client, folder);
  const tables: WrittenTable[] = [];
  // Before the tables: an entry that a worker persists meanwhile is in both, and a restore applies it once.
  if (shards !== null) tables.push(await writeEntries(shards, draft));
  // Behind a pooler the transaction has begun with a query, after which its isolation cannot change.
  await client.query('commit; begin transaction isolation level repeatable read, read only');
  await client.query(WITHOUT_LIMITS);
  await requireOwnFormat(client);
  await requireAlone(client, folder);
  const { rows: cursors } = await client.query<{ shard: number; last_id: string }>(
    'select shard, last_id from journal_cursor',
  );
  for (const table of await readTables(client)) {
    const written = await writeTable(client, table, draft);
    tables.push(written);
    report(written);
  }
  // A restore fills the table from both files.
  const [entries] = shards === null ? [] : tables.splice(0, 1);
  if (entries) tables.push(entries);
  if (entries) report({ ...entries, name: 'journal of Redis' });
  const manifest: Manifest = {
    format: FORMAT,
    created_at: new Date().toISOString(),
    service_version: serviceVersion,
    journal: Object.fromEntries(cursors.map(({ shard, last_id }) => [String(shard), last_id])),
    sequences: await readSequences(client),
    tables,
  };
  writeFileSync(join(draft, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 });
  // The manifest last, because a folder that has it is a backup.
  const names = [...tables.map(({ file }) => file), MANIFEST];
  await toDisk(names.map((name) => join(draft, name)));
  // The lock keeps away only backups of the same database.
  requireUntouched(folder, draft, tables);
  for (const name of names) renameSync(join(draft, name), join(folder, name));
  rmdirSync(draft);
  return manifest;
}

const WITHOUT_LIMITS = 'set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0';

/** @throws Refused */
async function requireOwnFormat(client: Client): Promise<void> {
  const format = await readFormat(client);
  if (format === null) throw new Refused('the database has no schema yet: run npm run migrate');
  if (format !== FORMAT) throw new Refused(foreignFormat('Postgres', format));
}

/** Makes an empty folder for the files until they are whole. @returns its path @throws Refused */
async function prepareFolder(client: Client, folder: string): Promise<string> {
  await requireAlone(client, folder);
  const draft = join(folder, PARTIAL);
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name !== PARTIAL) : [];
  // A backup that was killed while its files left the folder of unfinished ones.
  const isInterrupted = existsSync(draft) && names.every((name) => name.endsWith(TABLE_FILE));
  if (names.length > 0 && !isInterrupted) throw new Refused(`${folder} is not empty`);
  for (const name of names) rmSync(join(folder, name));
  rmSync(draft, { recursive: true, force: true });
  // Rows have names, addresses and codes of people.
  mkdirSync(draft, { mode: 0o700, recursive: true });
  return draft;
}

/** @throws Refused when another program has written to the folder meanwhile */
function requireUntouched(folder: string, draft: string, tables: readonly WrittenTable[]): void {
  const isWhole = tables.every(
    ({ file, bytes }) => statSync(join(draft, file), { throwIfNoEntry: false })?.size === bytes,
  );
  if (!isWhole || readdirSync(folder).some((name) => name !== PARTIAL))
    throw new Refused(`another program has written to ${folder} meanwhile`);
}

/** Locks the folder until the transaction ends. @throws Refused while another backup writes it */
async function requireAlone(client: Client, folder: string): Promise<void> {
  const { rows } = await client.query<{ taken: boolean }>(
    `select pg_try_advisory_xact_lock(hashtext('doorbuster backup ' || $1)) as taken`,
    [`${hostname()}:${folder}`],
  );
  if (!rows[0]?.taken) throw new Refused(`another backup is being written to ${folder}`);
}

async function writeTable(client: Client, { name, columns }: Table, folder: string): Promise<WrittenTable> {
  const file = `${name}${TABLE_FILE}`;
  // A partitioned table can only be read by a query.
  const query = `select ${columns.map(quoted).join(', ')} from ${quoted(name)}`;
  const rows = client.query(copyTo(`copy (${query}) to stdout`));
  const written = await writeFile(rows, join(folder, file));
  return { name, columns: [...columns], file, rows: rows.rowCount ?? 0, ...written };
}

/** Writes the journal entries that Postgres lacks as rows of `recovered_entries`, which a new history applies. */
async function writeEntries(shards: CommandShards, folder: string): Promise<WrittenTable> {
  const file = JOURNAL_FILE;
  let rows = 0;
  async function* lines(): AsyncGenerator<string> {
    for await (const line of unpersistedRows(shards)) {
      rows += 1;
      yield line;
    }
  }
  const written = await writeFile(Readable.from(lines()), join(folder, file));
  return { name: 'recovered_entries', columns: [...RECOVERED_COLUMNS], file, rows, ...written };
}

async function writeFile(rows: Readable, path: string): Promise<Pick<WrittenTable, 'bytes' | 'sha256'>> {
  const hash = createHash('sha256');
  let bytes = 0;
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      bytes += chunk.length;
      done(null, chunk);
    },
  });
  const zip = createGzip({ level: constants.Z_BEST_SPEED });
  await pipeline(rows, zip, measure, createWriteStream(path, { mode: 0o600 }));
  return { bytes, sha256: hash.digest('hex') };
}

/** Waits until the files are on disk, so that a backup with its final name survives a loss of power. */
async function toDisk(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const handle = await open(path, 'r');
    await handle.sync().finally(() => handle.close());
  }
}
