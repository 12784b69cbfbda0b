import { expect, test } from '@jest/globals';
import { Queue } from 'bullmq';
import { QUEUE_NAMES } from '../../shared/contracts/jobs.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { connectForJobs } from '../../shared/redis/connections.js';
import { bullmqPrefix, keys } from '../../shared/redis/keys.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { connectToRedis } from '../harness/sale.js';
import { startService } from '../harness/service.js';
import { arrive, checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** The reads of the operator's page: the line, and the overview. */
const service = await startService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const get = (path: string) => operator.call('GET', path);

test('the line has the next users, what they want and since when, and why no user is promoted', async () => {
  const product = await operator.openCampaign({
    total_limit: 2,
    max_qty: 3,
    hold_seconds: 900,
    waiting_room: { enabled: true },
  });
  const path = `/admin/campaigns/${product}/line`;
  expect((await get(path)).data).toEqual({ waiting: 0, free: 2, reason: 'nobody_waits', head: [] });
  const held = String((await arrive(service.url, product).checkout({ qty: 2 })).data.reservation_id);
  const [first, second] = gatherShoppers(service.url, product, 2);
  await first?.checkout({ qty: 3 });
  await second?.checkout();
  const { data } = await get(path);
  expect(data).toMatchObject({
    waiting: 2,
    free: 0,
    reason: 'nothing_free',
    head: [
      { position: 1, user_id: first?.user, qty: 3 },
      { position: 2, user_id: second?.user, qty: 1 },
    ],
  });
  for (const { since } of data.head) expect(Math.abs(Date.parse(since) - Date.now())).toBeLessThan(60_000);
  await payments.release(held);
  expect((await get(path)).data).toMatchObject({ free: 2, reason: 'head_wants_more', waiting: 2 });
  expect((await get(`${path}?limit=1`)).data.head).toHaveLength(1);
  await operator.call('POST', `/admin/campaigns/${product}/pause`);
  expect((await get(path)).data.reason).toBe('paused');
  for (const limit of ['0', '101', 'x', '1e9'])
    expectProblem(await get(`${path}?limit=${limit}`), 400, 'invalid_request');
  expectProblem(await get('/admin/campaigns/no-such-sale/line'), 404, 'campaign_not_found');
});

test('the overview has each campaign with the numbers that its stats have, and leads to older ones', async () => {
  const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900, waiting_room: { enabled: true } });
  await checkoutInTurn(gatherShoppers(service.url, product, 7));
  const stats = await until('Postgres has them', async () => {
    const now = await operator.stats(product);
    return now.persisted === 5 && now;
  });
  const { data } = await get('/admin/overview');
  const [newest] = data.campaigns;
  const counters = ['status', 'total', 'free', 'held', 'redeemed', 'burned', 'waiting', 'persisted', 'drift'];
  for (const name of counters) expect([name, newest[name]]).toEqual([name, stats[name]]);
  expect(newest).toMatchObject({ product_id: product, total: 5, held: 5, waiting: 2, drift: 0, in_redis: true });
  expect(newest.confirmed_per_second).toBeGreaterThanOrEqual(0);
  expect(data).toMatchObject({ terms: null, line: null, workers: [expect.stringMatching(/^worker-/)] });
  await until('nothing is left to be written', async () => {
    const { queues, journal_backlog } = (await get('/admin/overview')).data;
    return journal_backlog === 0 && queues.deliver.active === 0;
  });
  expect(Object.keys(data.queues)).toEqual([...QUEUE_NAMES]);
  const idle = { waiting: 0, active: 0, delayed: 0, failed: 0, oldest_seconds: null, reason: null };
  expect((await get('/admin/overview')).data.queues.deliver).toEqual(idle);

  await operator.openCampaign({ total_limit: 1 });
  const first = (await get('/admin/overview?limit=1')).data;
  expect(first.campaigns).toHaveLength(1);
  const second = (await get(`/admin/overview?limit=1&cursor=${first.next}`)).data;
  expect(second.campaigns[0].product_id).toBe(product);
  for (const query of ['limit=0', 'limit=101', 'cursor=0', 'cursor=x', 'line=0', 'campaign='])
    expectProblem(await get(`/admin/overview?${query}`), 400, 'invalid_request');
});

test('the overview of one campaign has its terms and its line, by either of its ids', async () => {
  const product = await operator.openCampaign({ total_limit: 0, waiting_room: { enabled: true } });
  const shoppers = gatherShoppers(service.url, product, 3);
  await checkoutInTurn(shoppers);
  const { data } = await get(`/admin/overview?campaign=${product}&line=2`);
  expect(data.campaigns.map((one: { product_id: string }) => one.product_id)).toEqual([product]);
  expect(data.terms).toMatchObject({ product_id: product, total_limit: 0 });
  expect(data.line).toMatchObject({ waiting: 3, reason: 'nothing_free' });
  expect(data.line.head.map((one: { user_id: string }) => one.user_id)).toEqual(
    shoppers.slice(0, 2).map(({ user }) => user),
  );
  expect((await get(`/admin/overview?campaign=${data.campaigns[0].id}`)).data.terms.product_id).toBe(product);
  expectProblem(await get('/admin/overview?campaign=no-such-sale'), 404, 'campaign_not_found');
});

test('a campaign that only Postgres still has is shown with the numbers of Postgres, and without a line', async () => {
  const product = await operator.openCampaign({ total_limit: 2 });
  await arrive(service.url, product).checkout();
  await until('Postgres has it', async () => (await operator.stats(product)).persisted === 1);
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  const redis = await connectToRedis(service.redis.url);
  await redis.del(keys.campaign(product as ProductId));
  const { data } = await get(`/admin/overview?campaign=${product}`);
  expect(data.campaigns[0]).toMatchObject({
    in_redis: false,
    status: 'closed',
    total: 2,
    free: 1,
    redeemed: 1,
    drift: 0,
  });
  expect(data.line).toBeNull();
  expectProblem(await get(`/admin/campaigns/${product}/line`), 404, 'campaign_not_found');
});

test('a full queue takes no more jobs, and /readyz names it and stays 200', async () => {
  await service.worker.stop();
  const connection = connectForJobs(service.redis.url, () => {});
  const queue = new Queue('promote', { connection, prefix: bullmqPrefix(service.redis.prefix) });
  await queue.addBulk(Array.from({ length: 1_000 }, (_, i) => ({ name: 'promote', data: { productId: `p${i}` } })));
  const ready = await until('it is named', async () => {
    const answer = await send(`${service.url}/readyz`);
    return (answer.data.degraded as string[]).length > 0 && answer;
  });
  expect([ready.status, ready.data.degraded]).toEqual([200, ['queue promote']]);
  expect(ready.data.checks).toMatchObject({ queues: { ok: false, detail: 'full: promote' } });
  // Resuming a campaign adds a job, and goes on without one.
  const product = await operator.openCampaign({ total_limit: 1 });
  for (const action of ['pause', 'resume'])
    expect((await operator.call('POST', `/admin/campaigns/${product}/${action}`)).status).toBe(200);
  expect(await queue.getWaitingCount()).toBe(1_000);
  await queue.obliterate({ force: true });
  await queue.close();
  connection.disconnect();
});

test('the overview reports that no worker runs after it has stopped', async () => {
  await until('no worker is alive', async () => (await get('/admin/overview')).data.workers.length === 0);
});
