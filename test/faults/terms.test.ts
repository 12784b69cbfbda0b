import { afterEach, beforeEach, expect, test } from '@jest/globals';
import pg from 'pg';
import { keys } from '../../shared/redis/keys.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, PaymentService, sendOnce } from '../harness/clients.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

/** Changes of terms that Redis has, while Postgres has not committed them. */
const stage = await Stage.set();
const redis = stage.connectToRedis();
const holder = new pg.Client(stage.postgres.url);
await holder.connect();
atEnd('a client', () => holder.end());
await stage.query(`create function hold_up() returns trigger language plpgsql as
  $$ begin perform pg_advisory_xact_lock_shared(42); return null; end $$`);
await stage.query(`create constraint trigger hold_up after update on campaigns deferrable initially deferred
  for each row when (old.terms_version <> new.terms_version) execute function hold_up()`);

beforeEach(async () => void (await holder.query('select pg_advisory_lock(42)')));
const letCommit = () => holder.query('select pg_advisory_unlock_all()');
afterEach(letCommit);

const commits = (of: 'doorbuster-api' | 'doorbuster-worker') => `from pg_stat_activity
  where datname = current_database() and application_name like '${of}%' and wait_event_type = 'Lock'`;

/** A user buys, an operator allows a second unit, and the API waits in its COMMIT; the user buys again. */
async function buyDuringChange() {
  const product = await stage.openCampaign({ per_user_limit: 1 });
  const ann = arrive(stage.url, product);
  const first = await ann.checkout();
  expect(first.status).toBe(200);
  await until('the first unit is persisted', async () => (await redis.xlen(keys.journal)) === 0);
  const change = new Operator(stage.url).call('PATCH', `/admin/campaigns/${product}`, { per_user_limit: 2 }).then(
    ({ status }) => status,
    () => null,
  );
  await until('the change is in Redis', async () =>
    (await redis.hget(keys.campaign(product as never), 'terms'))?.startsWith('2|'),
  );
  const second = await ann.checkout();
  expect(second.status).toBe(200);
  const reservations = [first, second].map(({ data }) => String(data.reservation_id));
  expect(new Set(reservations).size).toBe(2);
  await until(
    'the worker waits for the change',
    async () => (await stage.query(`select 1 ${commits('doorbuster-worker')}`)).length > 0,
  );
  return { product, reservations, change };
}

async function expectKept({ product, reservations }: { product: string; reservations: string[] }): Promise<void> {
  await until('all is persisted', async () => (await redis.xlen(keys.journal)) === 0);
  const rows = await stage.query(
    `select r.status, per_user_limit from redemptions r join campaigns c using (campaign_id)
     where product_id = $1`,
    [product],
  );
  expect(rows).toMatchObject(reservations.map(() => ({ status: 'reserved', per_user_limit: 2 })));
  const payments = new PaymentService(stage.url);
  for (const reservation of reservations) expect((await payments.confirm(reservation)).status).toBe(200);
}

test('a unit that was sold under terms whose commit is slow is kept', async () => {
  const sold = await buyDuringChange();
  await letCommit();
  expect(await sold.change).toBe(200);
  await expectKept(sold);
});

test('a unit that was sold under terms is kept when the API dies before it commits them', async () => {
  const sold = await buyDuringChange();
  await stage.apis.at(-1)?.kill();
  // Postgres notices that its client is gone when it next reads from it. A fail-over loses the change in the same way.
  await stage.query(`select pg_terminate_backend(pid) ${commits('doorbuster-api')}`);
  await letCommit();
  expect(await sold.change).toBeNull();
  await stage.startApi();
  await stage.ready();
  await expectKept(sold);
});

test('a repeated redemption gets 503, and no other discount, while Postgres lacks the terms that it was made under', async () => {
  await letCommit();
  const code = `TERMS${Date.now()}`;
  const product = await stage.openCampaign({ code, discount: { kind: 'percent', percent: 10 }, hold_seconds: 0 });
  const operator = new Operator(stage.url);
  const redeem = () =>
    sendOnce(`${stage.url}/coupons/redeem`, {
      method: 'POST',
      headers: { 'idempotency-key': 'key-of-lost-terms' },
      json: { code, user_id: 'ann', order_id: 'order-of-ann' },
    });
  for (const worker of stage.workers.splice(0)) await worker.kill();
  const backup = await takeBackup(holder);
  const discount = { kind: 'percent', percent: 20 };
  expect((await operator.call('PATCH', `/admin/campaigns/${product}`, { discount })).status).toBe(200);
  expect(await redeem()).toMatchObject({ status: 201, data: { discount } });
  await goBack(holder, backup);
  // A process that started since has not read these terms.
  await stage.apis.at(-1)?.kill();
  await stage.startApi();
  await stage.ready();
  expect(await redeem()).toMatchObject({ status: 503, body: { code: 'temporarily_unavailable' } });
  await stage.startWorker();
  await until('the terms are in Postgres again', async () => (await redeem()).status === 201);
  expect(await redeem()).toMatchObject({ status: 201, data: { discount } });
});

test('a change of terms keeps the changes that a Postgres lacks that was set back', async () => {
  await letCommit();
  const operator = new Operator(stage.url);
  const product = await stage.openCampaign({ name: 'The first name' });
  const change = async (terms: object) => {
    const { status, data } = await operator.call('PATCH', `/admin/campaigns/${product}`, terms);
    expect(status).toBe(200);
    return data;
  };
  // A worker would copy the terms of Redis to Postgres within a second.
  for (const worker of stage.workers.splice(0)) await worker.kill();
  const backup = await takeBackup(holder);
  await change({ name: 'A later name' });
  await change({ ends_at: '2099-12-31T00:00:00.000Z' });
  await goBack(holder, backup);
  const later = { name: 'A later name', ends_at: '2099-12-31T00:00:00.000Z', max_qty: 2 };
  expect(await change({ max_qty: 2 })).toMatchObject(later);
  const { data } = await operator.call('GET', `/admin/campaigns/${product}`);
  expect(data).toMatchObject(later);
  await stage.startWorker();
});

test('a change of terms is judged by the terms in force, also when Postgres was set back', async () => {
  await letCommit();
  const operator = new Operator(stage.url);
  const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
  const product = await stage.openCampaign({ starts_at: inHours(10), ends_at: inHours(20) });
  const change = (terms: object) => operator.call('PATCH', `/admin/campaigns/${product}`, terms);
  for (const worker of stage.workers.splice(0)) await worker.kill();
  const backup = await takeBackup(holder);
  expect((await change({ starts_at: inHours(1) })).status).toBe(200);
  await goBack(holder, backup);
  const ends_at = inHours(5);
  expect(await change({ ends_at })).toMatchObject({ status: 200, data: { ends_at } });
  expect(await change({ ends_at: inHours(0.5) })).toMatchObject({ status: 400 });
  await stage.startWorker();
});
