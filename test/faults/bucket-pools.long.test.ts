import { expect, it } from '@jest/globals';
import { Operator, PaymentService } from '../harness/clients.js';
import type { Crowd } from '../harness/crowd.js';
import { generateCodes } from '../harness/pool-codes.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

/** Pools in four buckets, while workers are killed with units and codes on their way, and while Redis loses its data. */
const BUCKETS = 4;
const stage = await Stage.set({ SHARDS: '4' }, { onServer: true });
const payments = () => new PaymentService(stage.url);

async function openPool(units: number): Promise<string> {
  const product = await stage.openCampaign({ type: 'pool', total_limit: units, buckets: BUCKETS });
  await generateCodes(new Operator(stage.url), product, units);
  return product;
}

async function sellOut(product: string): Promise<Crowd> {
  const crowd = stage.crowd(product, 40);
  crowd.start();
  await until('users wait', () => crowd.queued.length >= 40);
  return crowd;
}

/** The transfers with codes that have left a bucket and not arrived in another one. */
async function onTheirWay(product: string): Promise<number> {
  const [row] = await stage.query<{ n: number }>(
    `select count(*)::int as n from stock_transfers join campaigns using (campaign_id)
     where product_id = $1 and moved_in_at is null and cardinality(codes) > 0`,
    [product],
  );
  return row?.n ?? 0;
}

/** Releases units until codes are on their way to another bucket. @returns false when there is no unit to release */
async function releaseUntilOnTheirWay(product: string, given: string[]): Promise<boolean> {
  for (let reservation = given.pop(); reservation; reservation = given.pop()) {
    expect((await payments().release(reservation)).status).toBe(200);
    for (let looks = 0; looks < 8; looks += 1) if ((await onTheirWay(product)) > 0) return true;
  }
  return false;
}

/** Every unit is given, each with a code of its own, and in the order of the line. */
async function expectAllGiven(product: string, units: number): Promise<void> {
  await until('all units are given', async () => {
    const [row] = await stage.query<{ n: number; codes: number; last: number }>(
      `select count(*)::int as n, count(distinct code_no)::int as codes, max(code_no)::int as last
       from redemptions r join campaigns using (campaign_id)
       where product_id = $1 and r.status in ('reserved', 'redeemed')`,
      [product],
    );
    return row?.n === units && row.codes === units && row.last === units && (await onTheirWay(product)) === 0;
  });
  const passedOver = await stage.query(
    `select w.line_no from waiting_tickets w join campaigns c using (campaign_id)
     where c.product_id = $1 and w.status = 'waiting' and exists (select 1 from waiting_tickets p
       where p.campaign_id = w.campaign_id and p.status = 'promoted' and p.line_no > w.line_no)`,
    [product],
  );
  expect(passedOver).toEqual([]);
  expect(await stage.query('select * from journal_rejects')).toEqual([]);
  expect(await stage.query("select redemption_id from redemptions where status = 'voided'")).toEqual([]);
}

it('kill -9 of the worker while units and codes are on their way loses none of them', async () => {
  const product = await openPool(40);
  const crowd = await sellOut(product);
  const given = crowd.completed.map(({ body }) => String(body.data.reservation_id));
  let kills = 0;
  while (kills < 3 && (await releaseUntilOnTheirWay(product, given))) {
    await stage.workers.at(-1)!.kill();
    kills += 1;
    await stage.startWorker();
    await until('the next worker completes the transfer', async () => (await onTheirWay(product)) === 0);
  }
  expect(kills).toBeGreaterThan(0);
  await crowd.finish();
  await expectAllGiven(product, 40);
  await stage.expectNothingLost(crowd, product);
});

it('a Redis that lost its data gets the codes of each bucket from Postgres, also those that have moved', async () => {
  const product = await openPool(40);
  const crowd = await sellOut(product);
  const given = crowd.completed.map(({ body }) => String(body.data.reservation_id));
  const [first, second] = [given.slice(0, 8), given.slice(8, 16)];
  for (const reservation of first) expect((await payments().release(reservation)).status).toBe(200);
  await until('codes have moved', async () => {
    const rows = await stage.query(
      `select 1 from stock_transfers join campaigns using (campaign_id)
       where product_id = $1 and moved_in_at is not null and cardinality(codes) > 0`,
      [product],
    );
    return rows.length > 0;
  });
  await crowd.finish();
  stage.redis.kill('SIGKILL');
  await stage.redis.exited;
  await stage.removeRedisData();
  await stage.startRedis();
  await stage.ready();
  for (const reservation of second)
    await until('a unit is released', async () => (await payments().release(reservation)).status === 200);
  await expectAllGiven(product, 40);
  await stage.expectNothingLost(crowd, product);
});
