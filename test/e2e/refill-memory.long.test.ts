import { expect, test } from '@jest/globals';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { keys } from '../../shared/redis/keys.js';
import { createTestDatabase, startTestRedis } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';
import { describeCampaign } from '../harness/sale.js';
import { serviceEnv, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

/** A worker needs about 40 MB without a refill, and a list of these users takes at least 60 MB. */
const HEAP_MB = 72;
const USERS = 150_000;

test('a worker refills Redis page by page, so that its memory does not grow with the users', async () => {
  const [redis, database] = [await startTestRedis(), await createTestDatabase()];
  const campaign = await new CampaignsTable(connectDatabase(database.url)).insert({
    ...describeCampaign({ totalLimit: null }),
    rules: {},
  });
  if (!campaign) throw new Error('the campaign was not created');
  await database.client.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, pay_before, terms_version)
     select gen_random_uuid(), $1, 'shopper-' || md5(i::text), 'order-' || i, 1, 1, 'reserved', now(), now() + interval '1 hour', 1
     from generate_series(1, ${USERS}) i`,
    [campaign.id],
  );
  const env = serviceEnv(redis.url, database.url, { NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}` });
  const worker = await startWorkerProcess(env);
  await until('Redis is filled', async () => {
    if (worker.child.exitCode !== null || worker.child.signalCode !== null) throw new Error(worker.log.join('\n'));
    return (await redis.client.exists(keys.epoch)) === 1;
  });
  expect(await redis.client.hlen(keys.people(campaign.productId))).toBe(USERS);
  expect(await redis.client.hmget(keys.campaign(campaign.productId), 'held')).toEqual([String(USERS)]);
});
