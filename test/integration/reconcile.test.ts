import { expect, jest, test } from '@jest/globals';
import pg from 'pg';
import type { ProductId } from '../../shared/domain/ids.js';
import { auditCampaign } from '../harness/audit.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, PaymentService, Shopper } from '../harness/clients.js';
import { startService } from '../harness/service.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

// Processes and engines start one after the other here; each wait has a limit of its own.
jest.setTimeout(90_000);

const service = await startService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const { client: redis } = service.redis;
const { client: postgres } = service.database;
await until('it serves', async () => (await fetch(`${service.url}/readyz`)).ok);

const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
const key = (product: string, what: string) => `db1:{${product}}:${what}`;
const status = async (id: string) =>
  (await postgres.query('select status from redemptions where redemption_id = $1', [id])).rows[0]?.status;
const settled = () => until('the journal is written', async () => (await redis.xlen('db1:journal')) === 0);

/** A campaign of ten units of which three are held, all of it in Postgres. @returns ids of the reservations */
async function threeHeld(): Promise<{ product: string; ids: [string, string, string] }> {
  const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 600, require_attestation: false });
  const answers = await Promise.all([1, 2, 3].map(() => new Shopper(service.url, product).checkout()));
  await settled();
  return { product, ids: answers.map(({ data }) => data.reservation_id) as [string, string, string] };
}

async function reconcile(product: string): Promise<Record<string, any>> {
  const answer = await operator.call('POST', `/admin/campaigns/${product}/reconcile`);
  expect(answer.status).toBe(200);
  return answer.data;
}

/** After a repair nothing is left: for the ledger, and in Redis itself. */
async function expectWhole(product: string): Promise<void> {
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: CLEAN });
  expect(await auditCampaign(redis, product as ProductId)).toEqual([]);
}

test('finds nothing where nothing differs', async () => {
  const { product } = await threeHeld();
  expect(await reconcile(product)).toMatchObject({
    confirmed: 3,
    persisted: 3,
    ...CLEAN,
    repaired: { journaled: 0, refilled: false },
  });
  await expectWhole(product);
});

test('a row that is gone from Postgres is written again from the promise in Redis', async () => {
  const { product, ids } = await threeHeld();
  await postgres.query('delete from redemptions where redemption_id = $1', [ids[1]]);
  const difference = {
    reservation: ids[1],
    side: 'redis',
    why: 'promised in Redis, no row in Postgres',
    redis: 'reserved',
    postgres: null,
  };
  const said = await ledger(service.env, product);
  expect([said.code, said.verdict.lost, said.verdict.differences[0]]).toEqual([1, 1, difference]);
  const result = await reconcile(product);
  expect(result.before).toMatchObject({ confirmed: 3, persisted: 2, lost: 1 });
  expect(result.before.differences[0]).toEqual(difference);
  expect(result).toMatchObject({ ...CLEAN, repaired: { journaled: 1, refilled: false } });
  expect(await status(ids[1])).toBe('reserved');
  await expectWhole(product);
});

test('a reservation that ended in Redis and is reserved in Postgres is ended there', async () => {
  const { product, ids } = await threeHeld();
  await payments.release(ids[0]);
  await settled();
  await postgres.query("update redemptions set status = 'reserved', released_at = null where redemption_id = $1", [
    ids[0],
  ]);
  const result = await reconcile(product);
  expect(result.before.differences).toContainEqual({
    reservation: ids[0],
    side: 'postgres',
    why: 'the two sides have different states',
    redis: 'released',
    postgres: 'reserved',
  });
  expect(result).toMatchObject({ ...CLEAN, repaired: { journaled: 1, refilled: false } });
  expect(await status(ids[0])).toBe('released');
  await expectWhole(product);
});

test('what Postgres has and Redis does not is filled in from Postgres', async () => {
  const { product, ids } = await threeHeld();
  await redis.hdel(key(product, 'reservations'), ids[2]);
  await redis.zrem(key(product, 'deadlines'), ids[2]);
  await postgres.query("update redemptions set status = 'redeemed', redeemed_at = now() where redemption_id = $1", [
    ids[0],
  ]);
  const result = await reconcile(product);
  expect(result.before).toMatchObject({ lost: 0, drift: 2 });
  expect(result.before.differences).toEqual(
    expect.arrayContaining([
      {
        reservation: ids[2],
        side: 'postgres',
        why: 'a row in Postgres that Redis does not know',
        redis: null,
        postgres: 'reserved',
      },
      {
        reservation: ids[0],
        side: 'postgres',
        why: 'the two sides have different states',
        redis: 'reserved',
        postgres: 'redeemed',
      },
    ]),
  );
  expect(result).toMatchObject({ ...CLEAN, repaired: { journaled: 0, refilled: true } });
  await expectWhole(product);
  expect((await payments.confirm(ids[2])).data.status).toBe('redeemed');
  expect((await payments.release(ids[0])).body.code).toBe('reservation_redeemed');
});

test('counters that lie are counted again', async () => {
  const { product } = await threeHeld();
  await redis.hset(key(product, 'campaign'), { free: 6, held: 4 });
  const result = await reconcile(product);
  expect(result.before).toMatchObject({ lost: 0, drift: 1 });
  expect(result.before.differences).toEqual([
    {
      reservation: null,
      side: 'counters',
      why: 'the counters say another number of units taken than Postgres has rows for',
      redis: '4',
      postgres: '3',
    },
  ]);
  expect(result).toMatchObject({ ...CLEAN, repaired: { journaled: 0, refilled: true } });
  expect(await operator.stats(product)).toMatchObject({ free: 7, held: 3 });
  await expectWhole(product);
});

test('what no repair may decide is told: an answer, the log, a metric, and one event for the same differences', async () => {
  const { product, ids } = await threeHeld();
  await postgres.query('update redemptions set order_id = $2 where redemption_id = any($1)', [
    ids.slice(0, 2),
    'ord_of_two',
  ]);
  const differences = ids.slice(0, 2).map((reservation) => ({
    reservation,
    side: 'postgres',
    why: 'the order id is not his alone',
    redis: null,
    postgres: null,
  }));
  for (let times = 0; times < 2; times += 1) {
    const result = await reconcile(product);
    expect(result).toMatchObject({ lost: 0, duplicated: 2, repaired: { journaled: 0, refilled: false } });
    expect(result.differences).toEqual(expect.arrayContaining(differences));
  }
  expect((await ledger(service.env, product)).code).toBe(1);
  const told = service.worker.log.filter((line) => line.includes('the two sides differ') && line.includes(product));
  expect(told.length).toBe(4);
  const { rows } = await postgres.query(
    "select data from outbox where type = 'dev.doorbuster.campaign.drifted.v1' and product_id = $1",
    [product],
  );
  expect(rows.map(({ data }) => data)).toMatchObject([{ lost: 0, duplicated: 2, over_cap: 0, drift: 0 }]);
  const counted = /doorbuster_differences_total\{side="postgres"\} (\d+)/;
  await until('the metric is told', async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    return Number(counted.exec(text)?.[1] ?? 0) >= 4;
  });
});

test('what is on its way is no difference, however long Postgres takes', async () => {
  const { product, ids } = await threeHeld();
  const holder = new pg.Client(service.database.url);
  await holder.connect();
  atEnd('a client', () => holder.end());
  await holder.query('begin');
  await holder.query('select * from journal_cursor for update');
  const late = await new Shopper(service.url, product).checkout();
  await payments.confirm(ids[0]);
  const lag = await redis.xlen('db1:journal');
  const result = await operator.call('POST', `/admin/campaigns/${product}/reconcile`);
  // Two waits for Postgres take as long as an operator's answer does, so the answer may be in the log.
  const verdict = result.status === 200 ? result.data : {};
  if (result.status === 200) expect(verdict).toMatchObject({ ...CLEAN, repaired: { journaled: 0, refilled: false } });
  expect(await redis.xlen('db1:journal')).toBe(lag);
  expect(service.worker.log.filter((line) => line.includes(late.data.reservation_id))).toEqual([]);
  await holder.query('rollback');
  await settled();
  await expectWhole(product);
});

test('the ledger says when it cannot compare', async () => {
  expect(await ledger(service.env, 'no-such-product')).toMatchObject({ code: 2, verdict: {} });
  const away = { ...service.env, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
  expect((await ledger(away, 'no-such-product')).code).toBe(2);
});
