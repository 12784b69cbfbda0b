import { expect, test } from '@jest/globals';
import { expectStock } from '../harness/checks.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { RedisCluster } from '../harness/cluster.js';
import { createTestDatabase } from '../harness/engines.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** The whole service on a real Redis Cluster, with several shards. */
const cluster = await RedisCluster.start();
const database = await createTestDatabase();
const env = serviceEnv(cluster.url, database.url, { SHARDS: '8', LOG_LEVEL: 'info' });
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
