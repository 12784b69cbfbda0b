import { expect, test } from '@jest/globals';
import pg from 'pg';
import { atEnd } from '../harness/cleanup.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const stage = await Stage.set();
const redis = stage.connectToRedis();
const holder = new pg.Client(stage.postgres.url);
await holder.connect();
atEnd('a client', () => holder.end());

const cursor = async () => (await stage.query<{ last_id: string }>('select last_id from journal_cursor'))[0]!.last_id;
const rows = async (product: string) =>
  Number(
    (
      await stage.query<{ n: string }>(
        'select count(*) as n from redemptions join campaigns using (campaign_id) where product_id = $1',
        [product],
      )
    )[0]!.n,
  );
/** Since a moment ago, so that the deadline of its statement is far. */
const waitsFor = (event: string) =>
  until(`the worker waits for ${event}`, async () => {
    const found = await stage.query(
      `select 1 from pg_stat_activity where datname = current_database() and application_name like 'doorbuster-worker%' and wait_event_type = 'Lock'
         and clock_timestamp() - query_start < interval '1 second'`,
    );
    return found.length > 0;
  });

/**
 * Lets a worker that waits for the cursor commit while it cannot write to Redis: it hangs in its announcement. A batch
 * whose deadline passes first is not committed then, because its job, which cannot renew its lock in Redis, fails first.
 */
async function commitWithoutRedis(): Promise<void> {
  const failures = () => stage.workers.at(-1)!.log.filter((line) => line.includes('persisting failed')).length;
  for (;;) {
    const before = { cursor: await cursor(), failures: failures() };
    await waitsFor('the cursor');
    // Readers go on, writers wait.
    await redis.client('PAUSE', 60_000, 'WRITE');
    await holder.query('rollback');
    const committed = async () => (await cursor()) !== before.cursor;
    await until('the batch is committed or fails', async () => (await committed()) || failures() > before.failures);
    if (await committed()) return;
    await holder.query('begin');
    await holder.query('select * from journal_cursor for update');
    await redis.client('UNPAUSE');
  }
}

async function killWorker(): Promise<void> {
  await stage.workers.at(-1)!.kill();
}

test('killed while it waits for the cursor: the next worker writes everything', async () => {
  const product = await stage.openCampaign();
  await holder.query('begin');
  await holder.query('select * from journal_cursor for update');
  const crowd = stage.crowd(product, 200);
  crowd.start();
  await until('people have bought', () => crowd.completed.length >= 50);
  await waitsFor('the cursor');
  await killWorker();
  await holder.query('rollback');
  expect(await rows(product)).toBe(0);
  await stage.startWorker();
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
});

test('killed in the middle of its transaction: nothing of it stays, and the next worker writes everything', async () => {
  const product = await stage.openCampaign();
  await stage.query(`create function hold_up() returns trigger language plpgsql as
    $$ begin perform pg_advisory_xact_lock(42); return null; end $$`);
  await stage.query('create trigger hold_up after insert on redemptions for each statement execute function hold_up()');
  await holder.query('select pg_advisory_lock(42)');
  const crowd = stage.crowd(product, 200);
  crowd.start();
  await until('people have bought', () => crowd.completed.length >= 50);
  await waitsFor('the lock inside its insert');
  await killWorker();
  await holder.query('select pg_advisory_unlock(42)');
  await stage.query('drop function hold_up cascade');
  await stage.startWorker();
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
});

test('killed after its commit and before it told anybody: the next worker writes nothing twice', async () => {
  const product = await stage.openCampaign();
  await holder.query('begin');
  await holder.query('select * from journal_cursor for update');
  const crowd = stage.crowd(product, 200);
  crowd.start();
  await until('people have bought', () => crowd.completed.length >= 50);
  await crowd.finish();
  await commitWithoutRedis();
  await killWorker();
  await redis.client('UNPAUSE');
  expect(await redis.xlen('db1:journal')).toBeGreaterThan(0);
  await stage.startWorker();
  await until('the journal is empty', async () => (await redis.xlen('db1:journal')) === 0);
  await stage.expectNothingLost(crowd, product);
  expect(await rows(product)).toBe(crowd.completed.length);
});

test('killed while deadlines run out: every unit is handed on once', async () => {
  // Five units a second: the line outlasts three kills.
  const product = await stage.openCampaign({ hold_seconds: 1, total_limit: 5 });
  const crowd = stage.crowd(product, 400);
  crowd.start();
  await until('people wait', () => crowd.queued.length >= 300);
  await crowd.finish();
  for (let kills = 0; kills < 3; kills += 1) {
    const before = await rows(product);
    await until('units go on', async () => (await rows(product)) > before);
    await killWorker();
    await stage.startWorker();
  }
  await stage.expectNothingLost(crowd, product);
});

test('Postgres without space refuses every batch for a while; nothing is voided and nothing is lost', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  await stage.query(`create function no_space() returns trigger language plpgsql as
    $$ begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$`);
  await stage.query(
    'create trigger no_space before insert on redemptions for each statement execute function no_space()',
  );
  const crowd = stage.crowd(product, 500);
  crowd.start();
  await until('people buy although nothing can be written', () => crowd.completed.length >= 500);
  expect(await rows(product)).toBe(0);
  await stage.query('drop function no_space cascade');
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
  expect(await rows(product)).toBe(crowd.completed.length);
});
