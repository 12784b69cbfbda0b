import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { projectRoot } from '../../shared/config/project-root.js';
import { FORMAT } from '../../shared/domain/format.js';
import { keys } from '../../shared/redis/keys.js';
import { atEnd } from '../harness/cleanup.js';
import { createTestDatabase, startTestRedis, type TestRedis } from '../harness/engines.js';
import { keyNames } from '../harness/key-names.js';
import { serviceEnv } from '../harness/service.js';

/** Stored data of another format: nothing starts, nothing is changed, and the message names the remedy. */
type Database = Awaited<ReturnType<typeof createTestDatabase>>;
const PROGRAMS = ['migrations', 'api', 'worker'] as const;

async function run(program: (typeof PROGRAMS)[number], env: NodeJS.ProcessEnv) {
  const child = spawn(process.execPath, [join(projectRoot(), 'dist', program, 'main.js')], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  atEnd(program, () => void child.kill('SIGKILL'));
  let output = '';
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
}

/** Every column and row of the database, as text. */
async function contentOf({ client }: Pick<Database, 'client'>): Promise<unknown> {
  const { rows: tables } = await client.query<{ name: string }>(
    "select tablename as name from pg_tables where schemaname = 'public' order by 1",
  );
  const columns = await client.query(
    "select table_name, column_name, data_type from information_schema.columns where table_schema = 'public' order by 1, 2",
  );
  const content: unknown[] = [columns.rows];
  for (const { name } of tables)
    content.push([name, (await client.query(`select row_to_json(t)::text as row from "${name}" t order by 1`)).rows]);
  return content;
}

async function contentOfRedis(redis: TestRedis): Promise<unknown> {
  const names = (await keyNames(redis.client, '*')).sort();
  return Promise.all(names.map(async (name) => [name, await redis.client.dump(name.slice(redis.prefix.length))]));
}

/** Runs every program, and expects each to refuse and to change nothing. */
async function expectRefusals(redis: TestRedis, database: Database, message: string, env: NodeJS.ProcessEnv = {}) {
  const state = async () => [await contentOf(database), await contentOfRedis(redis)];
  const before = await state();
  for (const program of PROGRAMS) {
    const { code, output } = await run(program, serviceEnv(redis.url, database.url, env));
    expect([program, code, output.trim().split('\n').length]).toEqual([program, 1, 1]);
    expect(output).toContain(message);
    expect(await state()).toEqual(before);
  }
}

const need = `this version needs format ${FORMAT}. Nothing was changed. Remedy:`;

describe('A database', () => {
  it('with another format number is left as it is', async () => {
    const database = await createTestDatabase();
    await database.client.query('update installation set format = 99');
    await expectRefusals(
      await startTestRedis(),
      database,
      `The data in Postgres have format 99, ${need} a DATABASE_URL that names an empty database`,
    );
  });

  it('with the tables of the many migrations is left as it is', async () => {
    const database = await createTestDatabase(null);
    await database.client.query(
      `create table schema_migrations (id serial primary key, name text, batch integer, migration_time timestamptz);
       insert into schema_migrations (name, batch) values ('0001_create_campaigns', 1), ('0028_add_shards', 1);
       create table campaigns (campaign_id uuid primary key);
       create table installation (only_row boolean primary key default true, shards smallint not null default 1);
       insert into installation default values`,
    );
    await expectRefusals(await startTestRedis(), database, `The data in Postgres have no format number, ${need}`);
  });
});

describe('A Redis', () => {
  it('with another format number is left as it is, and so is an empty database', async () => {
    const redis = await startTestRedis();
    await redis.client.mset(keys.format, 99, keys.epoch, '5|server');
    await expectRefusals(
      redis,
      await createTestDatabase(null),
      `The data in Redis have format 99, ${need} a REDIS_URL that names an empty Redis`,
    );
  });

  it('with data and no format number is left as it is', async () => {
    const redis = await startTestRedis();
    await redis.client.xadd(keys.journal, '5-0', 'kind', 'answered');
    await expectRefusals(redis, await createTestDatabase(), `The data in Redis have no format number, ${need}`);
  });
});

describe('`npm run migrate` for `npm start`', () => {
  it('prints the command that moves the data of its own engines aside', async () => {
    const [redis, database] = [await startTestRedis(), await createTestDatabase()];
    await database.client.query('update installation set format = 99');
    const env = serviceEnv(redis.url, database.url, { DOORBUSTER_OWN_POSTGRES: '/home/me/.data' });
    const { code, output } = await run('migrations', env);
    expect([code, output.trim().split('Remedy: ')[1]]).toEqual([1, "mv '/home/me/.data' '/home/me/.data.format-99'"]);
  });

  it('makes the schema with the number of this version, once', async () => {
    const [redis, { url }] = [await startTestRedis(), await createTestDatabase(null)];
    for (let times = 0; times < 2; times += 1) {
      expect(await run('migrations', serviceEnv(redis.url, url))).toEqual({ code: 0, output: '' });
    }
    const client = new pg.Client(url);
    await client.connect();
    atEnd('a connection', () => client.end());
    expect((await client.query('select format from installation')).rows).toEqual([{ format: FORMAT }]);
  });
});
