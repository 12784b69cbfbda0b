import { expect, test } from '@jest/globals';
import pg from 'pg';
import { atEnd } from '../harness/cleanup.js';
import { Operator } from '../harness/clients.js';
import { startReceiver } from '../harness/receiver.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const stage = await Stage.set({ WEBHOOK_ALLOW_PRIVATE: '1' });
const redis = stage.connectToRedis();
const holder = new pg.Client(stage.postgres.url);
await holder.connect();
atEnd('a client', () => holder.end());

const count = async (sql: string, values: unknown[] = []) =>
  Number((await stage.query<{ n: string }>(`select count(*) as n ${sql}`, values))[0]!.n);
const rows = (product: string) =>
  count('from redemptions join campaigns using (campaign_id) where product_id = $1', [product]);
const workerWaitsForALock = () =>
  until(
    'the worker waits for a lock',
    async () =>
      (await count(
        "from pg_stat_activity where datname = current_database() and application_name like 'doorbuster-worker%' and wait_event_type = 'Lock' and pid > 1",
      )) > 0,
  );

test('killed in the middle of a rebuild: nobody is served from half of it, and the next worker does it whole', async () => {
  const product = await stage.openCampaign();
  const crowd = stage.crowd(product, 400);
  crowd.start();
  await until('half of the units are gone', () => crowd.completed.length >= 250);
  stage.redis.kill('SIGKILL');
  await stage.redis.exited;
  await stage.removeRedisData();
  // These are read after reservations and line have been written to Redis, and by nobody else here.
  await holder.query('begin');
  await holder.query('lock table remembered_answers in access exclusive mode');
  await stage.startRedis();
  const key = `db1:{${product}}:reservations`;
  await until('the reservations are back', async () => (await redis.hlen(key).catch(() => 0)) > 0);
  await workerWaitsForALock();
  await stage.workers.at(-1)!.kill();
  await holder.query('rollback');
  expect(await redis.exists('db1:epoch', `db1:{${product}}:campaign`)).toBe(0);
  const told = crowd.told.length;
  const refused = crowd.refused;
  await until('people are refused', () => crowd.refused > refused + 50);
  expect(crowd.told.length).toBe(told);
  await stage.startWorker();
  await until('everything is sold', () => crowd.completed.length >= 500);
  await crowd.finish();
  expect(crowd.completed.length).toBe(500);
  await stage.expectNothingLost(crowd, product);
});

test('one of two workers frozen in its transaction holds up nobody for long, and does nothing twice when it goes on', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  await until('the journal is empty', async () => (await redis.xlen('db1:journal')) === 0);
  await stage.query(`create function hold_up() returns trigger language plpgsql as
    $$ begin perform pg_advisory_xact_lock(42); return null; end $$`);
  await stage.query('create trigger hold_up after insert on redemptions for each statement execute function hold_up()');
  await holder.query('select pg_advisory_lock(42)');
  const crowd = stage.crowd(product, 60);
  crowd.start();
  await workerWaitsForALock();
  const frozen = stage.workers.at(-1)!;
  process.kill(frozen.pid, 'SIGSTOP');
  await holder.query('select pg_advisory_unlock(42)');
  await until(
    'its transaction stands open',
    async () =>
      (await count(
        "from pg_stat_activity where datname = current_database() and application_name like 'doorbuster-worker%' and state = 'idle in transaction'",
      )) > 0,
  );
  const before = crowd.completed.length;
  // Before the other worker starts, which may take longer than Postgres leaves this transaction open.
  expect(await rows(product)).toBe(0);
  await stage.startWorker();
  // Postgres ends the frozen transaction after 5 s; the worker's own deadline would be after 35 s.
  await until('the other one writes', async () => (await rows(product)) > before, 30_000);
  process.kill(frozen.pid, 'SIGCONT');
  const after = crowd.completed.length;
  await until('the sale goes on', () => crowd.completed.length >= after + 200);
  await crowd.finish();
  await stage.query('drop function hold_up cascade');
  await stage.expectNothingLost(crowd, product);
  expect(await rows(product)).toBe(crowd.completed.length);
  await frozen.stop();
});

test('killed between the commit and the event stream: every event is told once and in order', async () => {
  const product = await stage.openCampaign();
  await until('the journal is empty', async () => (await redis.xlen('db1:journal')) === 0);
  await holder.query('begin');
  await holder.query('select * from journal_cursor for update');
  const crowd = stage.crowd(product, 60);
  crowd.start();
  await until('people have bought', () => crowd.completed.length >= 50);
  await workerWaitsForALock();
  await crowd.finish();
  const told = await count('from outbox');
  await until('the stream has what was committed so far', async () => (await redis.xlen('db1:events')) === told);
  // Readers go on, writers wait: the worker commits, and can tell nobody.
  await redis.client('PAUSE', 60_000, 'WRITE');
  await holder.query('rollback');
  await until('the batch is committed', async () => (await rows(product)) > 0);
  await stage.workers.at(-1)!.kill();
  expect(await count('from outbox')).toBeGreaterThan(told);
  expect(await redis.xlen('db1:events')).toBe(told);
  await redis.client('UNPAUSE');
  await stage.startWorker();
  await stage.expectNothingLost(crowd, product);
  const seqs = (await stage.query<{ seq: string }>('select seq from outbox order by seq')).map(({ seq }) => `${seq}-0`);
  await until('the stream has all', async () => (await redis.xlen('db1:events')) >= seqs.length);
  expect((await redis.xrange('db1:events', '-', '+')).map(([id]) => id)).toEqual(seqs);
});

test('killed while a webhook is on its way: it is told again, under the same id and before the next', async () => {
  const receiver = await startReceiver();
  const operator = new Operator(stage.url);
  const endpoint = await operator.call('POST', '/admin/webhooks', { url: receiver.url });
  expect(endpoint.status).toBe(201);
  receiver.answer = () => 'nothing';
  const product = await stage.openCampaign();
  const crowd = stage.crowd(product, 100);
  crowd.start();
  await until('a webhook is on its way', () => receiver.received.length > 0);
  await stage.workers.at(-1)!.kill();
  await crowd.finish();
  const [first] = receiver.received.map(({ event }) => event.id);
  receiver.answer = () => 204;
  await stage.startWorker();
  // The dead worker's lease runs out, as it would after fifteen seconds.
  await stage.query('update webhook_endpoints set leased_until = now()');
  await stage.expectNothingLost(crowd, product);
  const ids = (
    await stage.query<{ event_id: string }>('select event_id from outbox_events where product_id = $1 order by seq', [
      product,
    ])
  ).map(({ event_id }) => event_id);
  await until('all were told', () => receiver.accepted().length >= ids.length);
  expect(receiver.accepted()).toEqual(ids);
  expect(receiver.received.filter(({ event }) => event.id === first).length).toBe(2);
});
