import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import slotOf from 'cluster-key-slot';
import type { ProductId } from '../../shared/domain/ids.js';
import { shardOfProduct, shardPrefix } from '../../shared/domain/shards.js';
import { expectStock } from '../harness/checks.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { RedisCluster } from '../harness/cluster.js';
import { createTestDatabase } from '../harness/engines.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** The whole service on a real Redis Cluster, with several shards. */
const SHARDS = 8;
const cluster = await RedisCluster.start();
const database = await createTestDatabase();
const env = serviceEnv(cluster.url, database.url, { SHARDS: String(SHARDS), LOG_LEVEL: 'info' });
const [{ url }] = await Promise.all([startApiProcess(env), startWorkerProcess(env)]);
const operator = new Operator(url);
const payments = new PaymentService(url);

test('campaigns of all shards sell, pay, move their lines and reach Postgres', async () => {
  const products = await Promise.all(
    Array.from({ length: 12 }, () =>
      operator.openCampaign({ total_limit: 2, hold_seconds: 900, waiting_room: { enabled: true } }),
    ),
  );
  await Promise.all(
    products.map(async (product) => {
      const line = gatherShoppers(url, product, 4);
      const answers = await checkoutInTurn(line);
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 202, 202]);
      const [paid, given] = answers.map(({ data }) => String(data.reservation_id));
      expect((await payments.confirm(String(paid))).status).toBe(200);
      expect((await payments.release(String(given))).status).toBe(200);
      expect((await line[2]?.queueStatus())?.data.status).toBe('promoted');
      await expectStock(operator, product, { free: 0, held: 1, redeemed: 1, waiting: 1 });
    }),
  );
  const shards = await database.client.query(
    'select distinct shard from journal_histories where opened_at is not null',
  );
  expect(shards.rowCount).toBe(8);
  await until('all rows are in Postgres', async () => {
    const { rows } = await database.client.query<{ n: number }>('select count(*)::int as n from redemptions');
    return rows[0]?.n === 36;
  });
});

test('a campaign is created while shards of others are away, and 503 only in those', async () => {
  const { engine, id, ...node } = await cluster.primaryOf(slotOf(shardPrefix(0, SHARDS, true)));
  const replica = await cluster.replicaOf({ engine, id, ...node });
  const isAway = async (shard: number) => (await cluster.primaryOf(slotOf(shardPrefix(shard, SHARDS, true)))).id === id;
  const all = Array.from({ length: SHARDS }, (_, shard) => shard);
  const away = new Set((await Promise.all(all.map(isAway))).flatMap((is, shard) => (is ? [shard] : [])));
  expect(away.size).toBeGreaterThan(0);
  // No failover puts the shards back into service.
  replica.engine.kill('SIGSTOP');
  engine.kill('SIGKILL');
  await engine.exited;
  const statuses = new Set<number>();
  try {
    await until('campaigns were created and refused', async () => {
      const product = `sale-${randomUUID()}`;
      const { status } = await operator.call('POST', '/admin/campaigns', { product_id: product, total_limit: 1 });
      const { rows } = await database.client.query<{ shard: number | null }>(
        'select shard from campaigns where product_id = $1',
        [product],
      );
      const shard = rows[0] ? (rows[0].shard ?? shardOfProduct(product as ProductId, SHARDS)) : null;
      // A refused one is not in Postgres, so that the retry creates it.
      expect({ status, isStored: shard !== null }).toEqual({ status, isStored: status === 201 });
      if (shard !== null) expect(away.has(shard)).toBe(false);
      if (status === 201) expect((await gatherShoppers(url, product, 1)[0]?.checkout())?.status).toBe(200);
      statuses.add(status);
      return statuses.has(201) && statuses.has(503);
    });
  } finally {
    replica.engine.kill('SIGCONT');
  }
  expect([...statuses].sort()).toEqual([201, 503]);
});
