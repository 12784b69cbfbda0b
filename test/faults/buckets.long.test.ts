import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import slotOf from 'cluster-key-slot';
import { bucketOfReservation, shardOfBucket } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { shardOfProduct, shardPrefix } from '../../shared/domain/shards.js';
import { PaymentService } from '../harness/clients.js';
import { RedisCluster, startAgain } from '../harness/cluster.js';
import type { Crowd } from '../harness/crowd.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

/** A campaign in ten buckets on three nodes, while workers and servers are killed. */
const SHARDS = 16;
const BUCKETS = 10;
const cluster = await RedisCluster.start();
const stage = await Stage.set({
  REDIS_URL: cluster.url,
  SHARDS: String(SHARDS),
  // A killed primary leaves its replica alone, so no second server could confirm a promise.
  REDIS_WAIT_REPLICAS: '0',
});
const payments = () => new PaymentService(stage.url);

async function sellOut(units: number): Promise<{ product: string; crowd: Crowd }> {
  const product = await stage.openCampaign({ total_limit: units, buckets: BUCKETS });
  const crowd = stage.crowd(product, 50);
  crowd.start();
  await until('users wait', () => crowd.queued.length >= 60);
  return { product, crowd };
}

/** The units that have left a bucket and not arrived in another one. */
async function onTheirWay(product: string): Promise<number> {
  const [row] = await stage.query<{ n: number }>(
    `select count(*)::int as n from stock_transfers join campaigns using (campaign_id)
     where product_id = $1 and moved_in_at is null`,
    [product],
  );
  return row?.n ?? 0;
}

/** Releases units until some are on their way to another bucket. @returns false when there is no unit to release */
async function releaseUntilOnTheirWay(product: string, given: string[]): Promise<boolean> {
  for (let reservation = given.pop(); reservation; reservation = given.pop()) {
    expect((await payments().release(reservation)).status).toBe(200);
    for (let looks = 0; looks < 8; looks += 1) if ((await onTheirWay(product)) > 0) return true;
  }
  return false;
}

/** Checks that the line was served in its order, and that no unit was made or lost between the buckets. */
async function expectInOrder(product: string, units: number): Promise<void> {
  await until('all units have arrived and are given', async () => {
    const [row] = await stage.query<{ taken: number; moving: number; total: number }>(
      `select c.taken::int, (select coalesce(sum(units), 0) from stock_transfers t
          where t.campaign_id = c.campaign_id and moved_in_at is null)::int as moving,
         (select sum(total) from campaign_buckets b where b.campaign_id = c.campaign_id)::int as total
       from campaigns c where product_id = $1`,
      [product],
    );
    return row?.taken === units && row.moving === 0 && row.total === units;
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

it('kill -9 of the worker while units are on their way loses none of them', async () => {
  const { product, crowd } = await sellOut(40);
  const given = crowd.completed.map(({ body }) => String(body.data.reservation_id));
  let kills = 0;
  while (kills < 4 && (await releaseUntilOnTheirWay(product, given))) {
    await stage.workers.at(-1)!.kill();
    kills += 1;
    await stage.startWorker();
    await until('the next worker completes the transfer', async () => (await onTheirWay(product)) === 0);
  }
  expect(kills).toBeGreaterThan(0);
  await crowd.finish();
  await expectInOrder(product, 40);
  await stage.expectNothingLost(crowd, product);
});

it('a killed primary delays the line, and its users keep their places', async () => {
  const { product, crowd } = await sellOut(40);
  await cluster.untilHealthy(3, 1);
  const shard = shardOfBucket(shardOfProduct(product as ProductId, SHARDS), 1, BUCKETS, SHARDS);
  const node = await cluster.primaryOf(slotOf(shardPrefix(shard, SHARDS, true)));
  node.engine.kill('SIGKILL');
  await node.engine.exited;
  await until('users of its buckets get 503', () => crowd.refused > 0);
  const others = crowd.completed.filter(({ body }) => bucketOfReservation(body.data.reservation_id) !== 1);
  for (const { body } of others.slice(0, 10))
    await until('a unit is released', async () => {
      const { status } = await payments().release(String(body.data.reservation_id));
      if (status !== 200) await sleep(50);
      return status === 200;
    });
  const before = crowd.queued.length;
  await until('users join the line again', () => crowd.queued.length >= before + 30);
  await startAgain(node);
  await crowd.finish();
  await expectInOrder(product, 40);
  await stage.expectNothingLost(crowd, product);
});
