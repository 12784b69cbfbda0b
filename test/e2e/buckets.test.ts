import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import slotOf from 'cluster-key-slot';
import { bucketOfUser, shardOfBucket } from '../../shared/domain/buckets.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import { shardOfProduct, shardPrefix } from '../../shared/domain/shards.js';
import { expectStock } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, type Shopper } from '../harness/clients.js';
import { RedisCluster } from '../harness/cluster.js';
import { createTestDatabase } from '../harness/engines.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { arrive, checkoutAtOnce, checkoutInTurn, countStatuses, gatherShoppers, range } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';

/** Campaigns whose stock is divided into ten buckets, on a real Redis Cluster with three nodes. */
const SHARDS = 16;
const BUCKETS = 10;
const cluster = await RedisCluster.start({ replicas: 0 });
const database = await createTestDatabase();
const env = serviceEnv(cluster.url, database.url, {
  SHARDS: String(SHARDS),
  LOG_LEVEL: 'info',
  REDIS_WAIT_REPLICAS: '0',
});
const [{ url }] = await Promise.all([startApiProcess(env), startWorkerProcess(env)]);
const operator = new Operator(url);
const payments = new PaymentService(url);

const openDivided = (terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 20, hold_seconds: 900, buckets: BUCKETS, ...terms });
const withLine = { waiting_room: { enabled: true } };

/** A user of a bucket. */
function userOf(product: string, bucket: number): Shopper {
  for (;;) {
    const shopper = arrive(url, product);
    if (bucketOfUser(shopper.user as UserId, BUCKETS) === bucket) return shopper;
  }
}

/** Checks out, with the same key again as long as units are still on their way between buckets. */
function decided(shopper: Shopper): Promise<Answer> {
  const idempotency_key = randomUUID();
  return until(`${shopper.user} has a decision`, async () => {
    const answer = await shopper.checkout({ idempotency_key });
    return answer.status !== 503 && answer;
  });
}

async function act(product: string, action: string): Promise<void> {
  expect((await operator.call('POST', `/admin/campaigns/${product}/${action}`)).status).toBe(200);
}

async function promoted(shopper: Shopper): Promise<string> {
  const headers = { 'x-ticket': String(shopper.ticket) };
  return until(`${shopper.user} is promoted`, async () => {
    const { data } = await shopper.queueStatus(headers);
    return data.status === 'promoted' && String(data.reservation_id);
  });
}

test('the buckets of a campaign are on every node', async () => {
  const product = await openDivided();
  const home = shardOfProduct(product as ProductId, SHARDS);
  const nodes = await Promise.all(
    range(0, BUCKETS - 1).map((bucket) =>
      cluster.primaryOf(slotOf(shardPrefix(shardOfBucket(home, bucket, BUCKETS, SHARDS), SHARDS, true))),
    ),
  );
  expect(new Set(nodes.map(({ id }) => id)).size).toBe(3);
  expect((await operator.call('GET', `/admin/campaigns/${product}`)).data.buckets).toBe(BUCKETS);
});

test('scenario 11: two devices in different buckets both get the last two units, whatever bucket has them', async () => {
  const product = await openDivided({ total_limit: 2 });
  const answers = await checkoutAtOnce([userOf(product, 3), userOf(product, 7)]);
  expect(countStatuses(answers)).toEqual({ 200: 2 });
  expect((await userOf(product, 5).checkout()).body).toMatchObject({ status: 410, code: 'sold_out' });
  await expectStock(operator, product, { total: 2, held: 2 });
});

test('a crowd gets every unit once, without a line', async () => {
  const product = await openDivided({ total_limit: 50 });
  const answers = await Promise.all(gatherShoppers(url, product, 80).map(decided));
  expect(countStatuses(answers)).toEqual({ 200: 50, 410: 30 });
  await expectStock(operator, product, { total: 50, held: 50 });
});

test('with a line every unit goes to the first in line, in its order', async () => {
  const product = await openDivided({ ...withLine, total_limit: 20 });
  const crowd = gatherShoppers(url, product, 60);
  const answers = await checkoutInTurn(crowd);
  expect(new Set(Object.keys(countStatuses(answers)))).toEqual(new Set(['200', '202']));
  const served = answers.flatMap(({ status }, i) => (status === 200 ? [i] : []));
  const waiting = crowd.filter((_, i) => !served.includes(i));
  // Buckets that are frozen with units left give them to the first in line.
  const left = 20 - served.length;
  await until('no unit is left', async () => (await operator.stats(product)).free === 0);
  for (const shopper of waiting.slice(0, left)) await promoted(shopper);
  const inLine = waiting.slice(left);
  for (const [i, shopper] of inLine.entries())
    await until(`${i + 1} is the position`, async () => (await shopper.queueStatus()).data.position === i + 1);
  await expectStock(operator, product, { total: 20, held: 20, waiting: inLine.length });
  // The size of the line is that of the last look at all buckets.
  const sizeOfLine = async () => (await inLine[0]?.queueStatus())?.data.queue_size;
  await until('the size of the line is known', async () => (await sizeOfLine()) === inLine.length);

  const [first, second] = served.map((i) => String(answers[i]?.data.reservation_id));
  expect((await payments.confirm(String(first))).status).toBe(200);
  expect((await payments.refund(String(first))).status).toBe(200);
  expect((await payments.release(String(second))).status).toBe(200);
  for (const shopper of inLine.slice(0, 2)) await promoted(shopper);
  // Each shard persists its own journal.
  const rows = await until('Postgres has all promotions', async () => {
    const { rows } = await database.client.query<{ status: string }>(
      'select t.status from waiting_tickets t join campaigns using (campaign_id) where product_id = $1 order by line_no',
      [product],
    );
    return rows.filter(({ status }) => status === 'promoted').length === left + 2 && rows;
  });
  expect(rows.map(({ status }) => status).filter((status, i, all) => status !== all[i - 1])).toEqual([
    'promoted',
    'waiting',
  ]);
});

test('a restock that Postgres does not have yet replies with the new total', async () => {
  const product = await openDivided({ total_limit: 10 });
  await database.client.query('begin');
  try {
    await database.client.query('select 1 from campaigns where product_id = $1 for update', [product]);
    const restocked = await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 5 });
    expect([restocked.status, restocked.data.total_limit]).toEqual([200, 15]);
  } finally {
    await database.client.query('rollback');
  }
  await until('Postgres has it', async () => {
    const { data } = await operator.call('GET', `/admin/campaigns/${product}`);
    return data.total_limit === 15;
  });
});

test('a user has one place and one unit, however often they come', async () => {
  const product = await openDivided({ ...withLine, total_limit: 10 });
  const shopper = userOf(product, 4);
  const first = await shopper.checkout({ idempotency_key: 'the-same-key' });
  expect(first.status).toBe(200);
  const replay = await shopper.checkout({ idempotency_key: 'the-same-key' });
  expect(replay.body).toMatchObject({ status: 409, code: 'duplicate_request', data: first.data });
  expect((await shopper.checkout()).body).toMatchObject({ code: 'already_redeemed' });

  const late = userOf(product, 4);
  const place = await late.checkout();
  expect([place.status, place.data.position]).toEqual([202, 1]);
  const reservation = await promoted(late);
  expect((await payments.confirm(reservation)).status).toBe(200);
});

test('who leaves the line lets the others move up, and a socket hears of a promotion', async () => {
  const product = await openDivided({ ...withLine, total_limit: 1 });
  const [holder, leaver, last] = [userOf(product, 0), userOf(product, 1), userOf(product, 9)];
  const held = await holder.checkout();
  expect(held.status).toBe(200);
  expect((await leaver.checkout()).data.position).toBe(1);
  expect((await last.checkout()).data.position).toBe(2);
  const socket = await openSocket(url, String(last.ticket));
  expect(await socket.frame('welcome')).toMatchObject({ status: 'queued', position: 2 });
  expect((await leaver.leave()).status).toBe(200);
  await until('the last one moves up', async () => (await last.queueStatus()).data.position === 1);
  expect((await payments.release(String(held.data.reservation_id))).status).toBe(200);
  expect(await socket.frame('promoted')).toMatchObject({ type: 'promoted' });
  await socket.hangUp();
});

test('pause, resume, restock and close reach all buckets', async () => {
  const product = await openDivided({ ...withLine, total_limit: 10 });
  await checkoutAtOnce(range(0, BUCKETS - 1).map((bucket) => userOf(product, bucket)));
  const waiting = range(0, BUCKETS - 1).map((bucket) => userOf(product, bucket));
  expect(countStatuses(await checkoutInTurn(waiting))).toEqual({ 202: BUCKETS });
  await act(product, 'pause');
  expect((await userOf(product, 6).checkout()).status).toBe(503);
  await act(product, 'resume');
  const restocked = await operator.call('POST', `/admin/campaigns/${product}/stock`, { delta: 5 });
  expect([restocked.status, restocked.data.total_limit]).toEqual([200, 15]);
  for (const shopper of waiting.slice(0, 5)) await promoted(shopper);
  await expectStock(operator, product, { total: 15, held: 15, waiting: 5 });
  await act(product, 'close');
  for (const shopper of waiting.slice(5)) expect((await shopper.queueStatus()).data.status).toBe('closed');
  await until('every place has ended in Postgres', async () => {
    const { rows } = await database.client.query<{ n: number }>(
      `select count(*)::int as n from waiting_tickets join campaigns using (campaign_id) where product_id = $1 and waiting_tickets.status = 'waiting'`,
      [product],
    );
    return rows[0]?.n === 0;
  });
  const audit = await database.client.query(
    `select action from audit_log join campaigns using (campaign_id) where product_id = $1 order by at`,
    [product],
  );
  expect(audit.rows.map(({ action }) => action)).toEqual([
    ...['campaign.create', 'campaign.pause', 'campaign.resume', 'campaign.restock', 'campaign.close'],
  ]);
});

test('what a divided campaign cannot have is refused', async () => {
  const refused = async (terms: Record<string, unknown>) => {
    const { status, body } = await operator.call('POST', '/admin/campaigns', {
      product_id: 'refused',
      total_limit: 10,
      ...terms,
    });
    return [status, body.code, (body.errors as { pointer: string }[] | undefined)?.[0]?.pointer];
  };
  const unavailable = [400, 'buckets_unavailable', '#/buckets'];
  for (const buckets of [17, 64, 1_000_000]) expect(await refused({ buckets })).toEqual(unavailable);
  expect(await refused({ buckets: 2, type: 'unique' })).toEqual(unavailable);
  expect(await refused({ buckets: 0 })).toEqual([400, 'invalid_request', '#/buckets']);
  const presence = { waiting_room: { enabled: true, presence_seconds: 60 } };
  const noPresence = [400, 'invalid_request', '#/waiting_room/presence_seconds'];
  expect(await refused({ buckets: 2, ...presence })).toEqual(noPresence);
  const preview = { product_id: 'refused', total_limit: 10, buckets: 17 };
  const { body } = await operator.call('POST', '/admin/campaigns?preview=true', preview);
  expect(body.code).toBe('buckets_unavailable');
  const product = await openDivided();
  expect((await operator.call('PATCH', `/admin/campaigns/${product}`, { buckets: 2 })).status).toBe(400);
  expect((await operator.call('PATCH', `/admin/campaigns/${product}`, presence)).status).toBe(400);
});
