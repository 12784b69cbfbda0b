import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { expect, test } from '@jest/globals';
import pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { findPgBouncer, startPgBouncer } from '../../scripts/engines/pgbouncer.mjs';
import { migrateToLatest } from '../../shared/postgres/migrate.js';
import { Database, type Queryable } from '../../shared/postgres/pool.js';
import { prepared } from '../../shared/postgres/prepared.js';
import { atEnd } from '../harness/cleanup.js';
import { createTestDatabase } from '../harness/engines.js';
import { freePort } from '../harness/free-port.js';

const direct = String(process.env.DOORBUSTER_TEST_DATABASE_URL);
const { client } = await createTestDatabase();
const name = String((await client.query<{ name: string }>('select current_database() as name')).rows[0]?.name);
const found = await findPgBouncer();
if ('missing' in found) process.stderr.write(`\nSKIPPED: the tests through PgBouncer. ${found.missing}\n`);
const behindPooler = 'missing' in found ? test.skip : test;
/** Fewer connections than clients, so that statements of one client run on several. */
const pooler = 'missing' in found ? '' : await startPooler(found.path);

async function startPooler(binary: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'doorbuster-pgbouncer-'));
  const port = await freePort();
  const engine = await startPgBouncer({ binary, directory, port, target: direct, connections: 3 });
  atEnd('PgBouncer', async () => {
    await engine.stop();
    await rm(directory, { recursive: true, force: true });
  });
  return engine.url;
}

function urlOf(server: string, database = name): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.href;
}

function connect(server: string, statementMs = 4_321, connections = 8): Database {
  const options = { name: 'tests', connections, statementMs, connectMs: 10_000, onError() {} };
  const database = new Database({ url: urlOf(server), ...options });
  atEnd('a pool', () => database.close());
  return database;
}

const SETTINGS = [
  'statement_timeout',
  'idle_in_transaction_session_timeout',
  'tcp_keepalives_idle',
  'tcp_keepalives_interval',
  'tcp_keepalives_count',
];

async function settingsOf(connection: Queryable): Promise<string[]> {
  const shown = SETTINGS.map((setting) => `current_setting('${setting}')`).join(', ');
  const { rows } = await connection.query<{ settings: string[] }>(`select array[${shown}] as settings`);
  return rows[0]?.settings ?? [];
}

/** The same statement by many clients at once, each with its own values. */
async function callAtOnce(databases: readonly Database[], calls: number): Promise<unknown[]> {
  const call = async (i: number) => {
    const statement = prepared('sum_of_test', 'select $1::int + 1 as sum', [i]);
    const database = databases[i % databases.length] as Database;
    const { rows } = await (i % 3 === 0
      ? database.transaction((transaction) => transaction.query<{ sum: number }>(statement))
      : database.query<{ sum: number }>(statement));
    return Number(rows[0]?.sum) - 1;
  };
  return Promise.all(Array.from({ length: calls }, (_, i) => call(i)));
}

test('a direct connection keeps its limits and its named statements', async () => {
  const database = connect(direct, 4_321, 1);
  expect(await settingsOf(database)).toEqual(['4321ms', '5s', '5', '2', '3']);
  await callAtOnce([database], 3);
  const { rows } = await database.query<{ name: string }>('select name from pg_prepared_statements');
  expect(rows).toEqual([{ name: 'sum_of_test' }]);
});

behindPooler('statements and transactions have the limits of their own client, and leave none behind', async () => {
  const [short, long] = [connect(pooler, 1_234), connect(pooler, 56_789)];
  const limitsOf = async (database: Database) => [
    ...(await Promise.all([1, 2, 3, 4].map(() => settingsOf(database)))),
    await database.transaction(settingsOf),
    await database.withClient(settingsOf),
  ];
  const [shorts, longs] = await Promise.all([limitsOf(short), limitsOf(long)]);
  expect(shorts.map(([statement, idle]) => `${statement} ${idle}`)).toEqual(Array(6).fill('1234ms 5s'));
  expect(longs.map(([statement, idle]) => `${statement} ${idle}`)).toEqual(Array(6).fill('56789ms 5s'));
  const other = new pg.Client(urlOf(pooler));
  await other.connect();
  atEnd('a client', () => other.end());
  for (let i = 0; i < 6; i += 1) expect((await settingsOf(other)).slice(0, 2)).toEqual(['0', '0']);
});

behindPooler('Postgres itself ends a statement that is too slow', async () => {
  const database = connect(pooler, 200);
  await expect(database.query('select pg_sleep(60)')).rejects.toThrow('statement timeout');
});

behindPooler('named statements of many clients run on few connections', async () => {
  const databases = [connect(pooler), connect(pooler)];
  expect(await callAtOnce(databases, 200)).toEqual(Array.from({ length: 200 }, (_, i) => i));
});

behindPooler('rows are copied in and out', async () => {
  // The driver keeps the timer of a COPY until it fires, and with it this process.
  const database = connect(pooler, 900);
  await database.query('create table copied (value text)');
  await database.withClient(async (connection) => {
    await pipeline(['a\n', 'b\n'], connection.query(copyFrom('copy copied from stdin')));
  });
  const lines: string[] = [];
  const sink = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  await database.withClient(async (connection) => {
    await pipeline(connection.query(copyTo('copy (select * from copied order by value) to stdout')), sink);
  });
  expect(lines.join('')).toBe('a\nb\n');
});

behindPooler('two migrations at once wait for each other and leave no lock behind', async () => {
  const empty = `${name}_empty`;
  await client.query(`create database ${empty}`);
  atEnd('an empty database', async () => void (await client.query(`drop database ${empty} with (force)`)));
  const url = urlOf(pooler, empty);
  const outcomes = await Promise.all([migrateToLatest(url), migrateToLatest(url)]);
  expect(outcomes.map((applied) => applied.length > 0).sort()).toEqual([false, true]);
  const locks = `select 1 from pg_locks join pg_database on pg_database.oid = database
    where locktype = 'advisory' and datname = $1`;
  const { rows } = await client.query(locks, [empty]);
  expect(rows).toEqual([]);
});
