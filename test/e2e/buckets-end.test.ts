import { expect, test } from '@jest/globals';
import { bucketOfUser, shardOfBucket } from '../../shared/domain/buckets.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { shardOfProduct } from '../../shared/domain/shards.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, type Shopper, send } from '../harness/clients.js';
import { keyNames } from '../harness/key-names.js';
import { startService } from '../harness/service.js';
import { connectToShards } from '../harness/shard-connections.js';
import { arrive, checkoutAtOnce, countStatuses, range } from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

/** The stock and the end of campaigns that are divided into four buckets, in four shards. */
const SHARDS = 4;
const BUCKETS = 4;
const service = await startService({ SHARDS: String(SHARDS) });
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const { client: sql } = service.database;
const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };

const connections = connectToShards(service.redis.url, SHARDS);
/** The connections to the shards of all buckets, in the order of the buckets. */
const bucketsOf = (product: string) => {
  const home = shardOfProduct(product as ProductId, SHARDS);
  return range(0, BUCKETS - 1).flatMap((bucket) => connections[shardOfBucket(home, bucket, BUCKETS, SHARDS)] ?? []);
};
const hashOf = (product: string) => `db1:{${product}}:campaign`;
const fieldOf = (product: string, name: string) =>
  Promise.all(bucketsOf(product).map((redis) => redis.hget(hashOf(product), name)));

const openDivided = (terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 8, hold_seconds: 900, buckets: BUCKETS, require_attestation: false, ...terms });

/** One user of each bucket. */
function oneOfEach(product: string): Shopper[] {
  return range(0, BUCKETS - 1).map((bucket) => {
    for (;;) {
      const shopper = arrive(service.url, product);
      if (bucketOfUser(shopper.user as UserId, BUCKETS) === bucket) return shopper;
    }
  });
}

async function close(product: string): Promise<void> {
  expect((await operator.call('POST', `/admin/campaigns/${product}/close`)).status).toBe(200);
}

test('every bucket is archived, and its users get the same responses and refunds as before', async () => {
  const product = await openDivided();
  const people = [...oneOfEach(product), ...oneOfEach(product).slice(0, 1)];
  const checkout = () => Promise.all(people.map((shopper) => shopper.checkoutWithHeader(`key-of-${shopper.user}`)));
  const sold = await checkout();
  expect(countStatuses(sold)).toEqual({ 200: people.length });
  const ids = sold.map(({ data }) => String(data.reservation_id));
  for (const id of ids) expect((await payments.confirm(id)).status).toBe(200);
  await close(product);
  const standings = () => Promise.all(people.map(async (shopper) => (await shopper.queueStatus()).data));
  const before = await standings();
  expect(before.map(({ status }) => status)).toEqual(people.map(() => 'redeemed'));
  // As if it had been closed longer ago than the pause for returning users.
  for (const redis of bucketsOf(product)) await redis.hset(hashOf(product), 'closed_at', Date.now() - 60_000);
  await until('every bucket is archived', async () =>
    (await fieldOf(product, 'forgotten')).every((progress) => progress === 'done'),
  );
  for (const redis of bucketsOf(product)) {
    expect(await keyNames(redis, `db1:{${product}}:*`)).toEqual([hashOf(product)]);
    expect(await keyNames(redis, 'db1:i:*')).toEqual([]);
  }
  expect(await ledger(service.env, product)).toMatchObject({
    code: 0,
    verdict: { confirmed: people.length, ...CLEAN },
  });

  expect(await standings()).toEqual(before);
  expect((await checkout()).map(({ text }) => text)).toEqual(sold.map(({ text }) => text));
  for (const late of oneOfEach(product)) expectProblem(await late.checkout(), 410, 'campaign_ended');
  for (const id of ids) {
    const refunded = await payments.refund(id);
    expect(refunded.data).toMatchObject({ status: 'refunded', returned_to_stock: true });
    expect((await payments.refund(id)).text).toBe(refunded.text);
  }
  await until('Postgres has the refunds', async () => {
    const { rows } = await sql.query('select 1 from redemptions where redemption_id = any($1) and status = $2', [
      ...[ids, 'refunded'],
    ]);
    return rows.length === ids.length;
  });
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: CLEAN });
  const reconciled = await operator.call('POST', `/admin/campaigns/${product}/reconcile`);
  expect(reconciled).toMatchObject({ status: 200, data: CLEAN });
});

test('a bucket that missed the close is closed once Postgres has the close', async () => {
  const product = await openDivided({ total_limit: 4, waiting_room: { enabled: true } });
  expect(countStatuses(await checkoutAtOnce(oneOfEach(product)))).toEqual({ 200: BUCKETS });
  await close(product);
  const statusInPostgres = async () =>
    (await sql.query('select status from campaigns where product_id = $1', [product])).rows[0]?.status;
  await until('Postgres has the close', async () => (await statusInPostgres()) === 'closed');
  // As if the shard had been away.
  await bucketsOf(product)[2]?.hset(hashOf(product), 'status', 'open');
  await until('every bucket is closed', async () =>
    (await fieldOf(product, 'status')).every((status) => status === 'closed'),
  );
  for (const late of oneOfEach(product)) expectProblem(await late.checkout(), 410, 'campaign_ended');
  const { rows } = await sql.query(
    "select 1 from audit_log join campaigns using (campaign_id) where product_id = $1 and action like 'campaign.%'",
    [product],
  );
  expect(rows).toHaveLength(2);
});

test('the audit log and the event of a restock have the units of the whole campaign', async () => {
  const product = await openDivided({ total_limit: 10 });
  for (const delta of [5, 1, -2])
    expect((await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta })).status).toBe(200);
  const restocks = () =>
    sql.query(
      `select before->>'total_limit' as before, after->>'total_limit' as after from audit_log
       join campaigns using (campaign_id) where product_id = $1 and action = 'campaign.restock' order by at`,
      [product],
    );
  await until('Postgres has the restocks', async () => (await restocks()).rows.length === 3);
  expect((await restocks()).rows).toEqual([
    { before: '10', after: '15' },
    { before: '15', after: '16' },
    { before: '16', after: '14' },
  ]);
  const events = await sql.query(
    `select data->>'delta' as delta, data->>'total_limit' as total from outbox_events
     where type = 'dev.doorbuster.campaign.restocked.v1' and data->>'product_id' = $1 order by seq`,
    [product],
  );
  expect(events.rows).toEqual([
    { delta: '5', total: '15' },
    { delta: '1', total: '16' },
    { delta: '-2', total: '14' },
  ]);
});

test('without a line a code is valid as long as a bucket has units, and sold out as for a checkout', async () => {
  const code = `ENDS${Date.now()}`;
  const discount = { kind: 'percent', percent: 10 };
  const product = await openDivided({ code, total_limit: 5, hold_seconds: 0, discount });
  const validate = (shopper: Shopper) =>
    send(`${service.url}/coupons/validate`, { method: 'POST', json: { code, user_id: shopper.user } });
  expect(countStatuses(await checkoutAtOnce(oneOfEach(product)))).toEqual({ 200: BUCKETS });
  // Bucket 0 has the fifth unit.
  for (const shopper of oneOfEach(product))
    expect(await validate(shopper)).toMatchObject({ status: 200, data: { valid: true, remaining_hint: 'few' } });
  expect((await oneOfEach(product)[3]?.checkout())?.status).toBe(200);
  for (const shopper of oneOfEach(product)) {
    expectProblem(await shopper.checkout(), 410, 'sold_out');
    expectProblem(await validate(shopper), 410, 'sold_out');
  }
});
