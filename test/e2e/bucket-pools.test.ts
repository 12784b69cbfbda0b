import { expect, test } from '@jest/globals';
import { bucketOfUser, shardOfBucket } from '../../shared/domain/buckets.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { shardOfProduct } from '../../shared/domain/shards.js';
import { expectProblem, expectStock, pointersOf } from '../harness/checks.js';
import { Operator, PaymentService, type Shopper, send } from '../harness/clients.js';
import { generateCodes } from '../harness/pool-codes.js';
import { startService } from '../harness/service.js';
import { connectToShards } from '../harness/shard-connections.js';
import { arrive, checkoutAtOnce, checkoutInTurn, countStatuses, gatherShoppers, range } from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

/** Pools whose units and codes are divided into four buckets, in four shards. */
const SHARDS = 4;
const BUCKETS = 4;
const service = await startService({ SHARDS: String(SHARDS) });
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const { client: sql } = service.database;
const withLine = { waiting_room: { enabled: true } };

const connections = connectToShards(service.redis.url, SHARDS);

/** Adds codes, and waits until every bucket knows of all `known`. */
async function addCodes(product: string, count: number, known = count): Promise<void> {
  await generateCodes(operator, product, count);
  const home = shardOfProduct(product as ProductId, SHARDS);
  await until('every bucket knows the codes', async () => {
    const fields = range(0, BUCKETS - 1).map((bucket) =>
      connections[shardOfBucket(home, bucket, BUCKETS, SHARDS)]?.hget(`db1:{${product}}:campaign`, 'codes'),
    );
    return (await Promise.all(fields)).every((codes) => codes === String(known));
  });
}

async function openPool(units: number, codes: number, terms: Record<string, unknown> = {}): Promise<string> {
  const product = await operator.openCampaign({
    ...{ type: 'pool', total_limit: units, hold_seconds: 900, buckets: BUCKETS, require_attestation: false },
    ...terms,
  });
  if (codes > 0) await addCodes(product, codes);
  return product;
}

/** A user of a bucket. */
function userOf(product: string, bucket: number): Shopper {
  for (;;) {
    const shopper = arrive(service.url, product);
    if (bucketOfUser(shopper.user as UserId, BUCKETS) === bucket) return shopper;
  }
}

/** The numbers of the codes of active reservations, once Postgres has `count` of them. */
async function usedCodes(product: string, count: number): Promise<number[]> {
  return until(`Postgres has ${count} reservations`, async () => {
    const { rows } = await sql.query<{ code_no: number }>(
      `select code_no from redemptions join campaigns using (campaign_id)
       where product_id = $1 and redemptions.status in ('reserved', 'redeemed') order by code_no`,
      [product],
    );
    return rows.length === count && rows.map(({ code_no }) => code_no);
  });
}

async function expectClean(product: string): Promise<void> {
  const clean = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: clean });
}

test('a crowd gets every unit and every code once, without a line', async () => {
  const product = await openPool(30, 30);
  const answers = await checkoutAtOnce(gatherShoppers(service.url, product, 50));
  expect(countStatuses(answers)).toEqual({ 200: 30, 410: 20 });
  expect(await usedCodes(product, 30)).toEqual(range(1, 30));
  await expectClean(product);
});

test('users of one bucket get the units and the codes of all of them', async () => {
  const product = await openPool(8, 8);
  const crowd = range(1, 9).map(() => userOf(product, 2));
  expect(countStatuses(await checkoutInTurn(crowd))).toEqual({ 200: 8, 410: 1 });
  expect(await usedCodes(product, 8)).toEqual(range(1, 8));
  await expectClean(product);
});

test('a line with fewer codes than units is served in its order when codes come', async () => {
  const product = await openPool(12, 5, withLine);
  const crowd = gatherShoppers(service.url, product, 14);
  const answers = await checkoutInTurn(crowd);
  const isServed = async (shopper: Shopper) =>
    ['completed', 'promoted'].includes((await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) })).data.status);
  const lineOf = () => crowd.filter((_, i) => answers[i]?.status === 202);
  await usedCodes(product, 5);
  const reason = async () => (await operator.call('GET', `/admin/campaigns/${product}/line`)).data.reason;
  await until('the reason is the codes', async () => (await reason()) === 'codes_used_up');
  const promotedFirst = 5 - answers.filter(({ status }) => status === 200).length;
  await addCodes(product, 4, 9);
  expect(await usedCodes(product, 9)).toEqual(range(1, 9));
  const line = lineOf();
  for (const [i, shopper] of line.entries()) expect(await isServed(shopper)).toBe(i < promotedFirst + 4);
  // Added units are in bucket 0, and added codes in all buckets.
  const restocked = await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 4 });
  expect(restocked.status).toBe(200);
  await addCodes(product, 11, 20);
  const used = await usedCodes(product, 14);
  await expectStock(operator, product, { total: 16, free: 2, held: 14 });
  expect(new Set(used).size).toBe(14);
  await expectClean(product);
});

test('a released code is given to the next user, who may be of another bucket', async () => {
  const product = await openPool(4, 4, withLine);
  const holders = range(0, BUCKETS - 1).map((bucket) => userOf(product, bucket));
  const held = await checkoutInTurn(holders);
  expect(countStatuses(held)).toEqual({ 200: 4 });
  const next = userOf(product, 3);
  expect((await next.checkout()).status).toBe(202);
  expect((await payments.release(String(held[0]?.data.reservation_id))).status).toBe(200);
  await until('the next user has a unit', async () => (await next.queueStatus()).data.status === 'promoted');
  expect(await usedCodes(product, 4)).toEqual([1, 2, 3, 4]);
  const moved = await sql.query(
    `select from_bucket, to_bucket, units::int, codes from stock_transfers join campaigns using (campaign_id)
     where product_id = $1 and moved_in_at is not null`,
    [product],
  );
  expect(moved.rows).toEqual([{ from_bucket: 0, to_bucket: 3, units: 1, codes: [1] }]);
  await expectClean(product);
});

test('codes of a divided pool are given by checkout only', async () => {
  const product = await openPool(4, 4);
  const { rows } = await sql.query<{ code: string }>(
    'select c.code from codes c join campaigns using (campaign_id) where product_id = $1 order by code_no',
    [product],
  );
  const user = userOf(product, 0);
  for (const { code } of rows) {
    const json = { code, user_id: user.user, order_id: `order-of-${code}`, idempotency_key: `key-of-${code}` };
    expectProblem(await send(`${service.url}/coupons/redeem`, { method: 'POST', json }), 409, 'checkout_required');
    const check = { code, user_id: user.user };
    expectProblem(
      await send(`${service.url}/coupons/validate`, { method: 'POST', json: check }),
      409,
      'checkout_required',
    );
  }
  await expectStock(operator, product, { total: 4, free: 4 });
});

test('a pool in several buckets needs a number of units', async () => {
  const create = (terms: Record<string, unknown>) =>
    operator.call('POST', '/admin/campaigns', { product_id: 'refused', buckets: BUCKETS, ...terms });
  const unlimited = await create({ type: 'pool', total_limit: null });
  expect([unlimited.status, pointersOf(unlimited)]).toEqual([400, ['#/total_limit']]);
  const unique = await create({ type: 'unique', total_limit: 9 });
  expect([unique.status, pointersOf(unique)]).toEqual([400, ['#/buckets']]);
});
