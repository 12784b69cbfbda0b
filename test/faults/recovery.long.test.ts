import { randomUUID } from 'node:crypto';
import { afterEach, expect, test } from '@jest/globals';
import pg from 'pg';
import { atEnd, runCleanups } from '../harness/cleanup.js';
import { Operator, PaymentService, Shopper, send } from '../harness/clients.js';
import { moveTo, type Node, promote, ReplicatedStage, ready, recoveriesOf } from '../harness/replicated-stage.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

// Each test has a stage of its own; a stage that idles takes the CPU from the others.
afterEach(runCleanups);

const TERMS = { hold_seconds: 600, waiting_room: { enabled: true }, require_attestation: false };

function checkout(url: string, product: string, user: string, key = `key-of-${product}-${user}`) {
  return send(`${url}/flash-sale/checkout`, {
    method: 'POST',
    headers: { 'idempotency-key': key },
    json: { product_id: product, user_id: user, qty: 1 },
  });
}

async function expectWhole(stage: ReplicatedStage, node: Node, product: string): Promise<void> {
  const { verdict } = await ledger(stage.env(node), product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
}

/** A connection that keeps a table to itself, so that a recovery stops where it reads it. */
async function lockTable(stage: ReplicatedStage, table: string): Promise<() => Promise<void>> {
  const client = new pg.Client(stage.postgres.url);
  client.on('error', () => {});
  await client.connect();
  atEnd('the lock', () => client.end().catch(() => {}));
  await client.query('begin');
  await client.query(`lock table ${table} in access exclusive mode`);
  return async () => void (await client.query('rollback'));
}

test('a worker that was frozen while it filled Redis is replaced within seconds, and damages nothing when it wakes up', async () => {
  const stage = await ReplicatedStage.set();
  const node = await stage.startNode();
  const first = await stage.startWorker(node);
  const api = await stage.startApi(node);
  const operator = new Operator(api.url);
  const products: string[] = [];
  for (let i = 0; i < 10; i += 1) products.push(await operator.openCampaign({ ...TERMS, total_limit: 10 }));
  const reservations = new Map<string, string>();
  for (const product of products) {
    reservations.set(product, (await checkout(api.url, product, 'ann')).data.reservation_id);
  }
  await until('everything is persisted', async () => (await node.redis.xlen('db1:journal')) === 0);
  const unlock = await lockTable(stage, 'remembered_answers');
  await node.redis.flushall();
  await until('the first worker is filling', async () => (await node.redis.exists('db1:filler')) === 1);
  await until('it waits for Postgres', async () => {
    const rows = await stage.query(
      "select 1 from pg_stat_activity where datname = current_database() and application_name like 'doorbuster-worker%' and wait_event_type = 'Lock'",
    );
    return rows.length > 0;
  });
  process.kill(first.process.pid, 'SIGSTOP');
  const second = await stage.startWorker(node);
  await unlock();
  await until('the second worker has put Redis into service', () => recoveriesOf(second) > 0);
  await ready(api);
  for (const product of products) expect((await checkout(api.url, product, 'bob')).status).toBe(200);
  const payments = new PaymentService(api.url);
  for (const reservation of reservations.values()) expect((await payments.confirm(reservation)).status).toBe(200);

  process.kill(first.process.pid, 'SIGCONT');
  // It is refused by the token of the filling, or its connections were closed meanwhile and it finds that nothing is
  // left to do.
  const generation = /"generation":(\d+)[^}]*is in service/.exec(second.process.log.join('\n'))?.[1];
  await until('the first worker follows the history of the second', () =>
    first.process.log.some((line) => line.includes(`"open":true,"reason":"generation ${generation}"`)),
  );
  expect(recoveriesOf(first)).toBe(1);
  for (const product of products) {
    expect((await checkout(api.url, product, 'cid')).status).toBe(200);
    expect((await payments.confirm(String(reservations.get(product)))).status).toBe(200);
    await expectWhole(stage, node, product);
  }
});

test('with REDIS_WAIT_REPLICAS nothing is acknowledged that a replica does not have', async () => {
  const stage = await ReplicatedStage.set();
  const primary = await stage.startNode();
  const replica = await stage.startNode(primary);
  const options = { env: { REDIS_WAIT_REPLICAS: '1' } };
  const worker = await stage.startWorker(primary, options);
  const api = await stage.startApi(primary, options);
  const product = await new Operator(api.url).openCampaign({ ...TERMS, total_limit: 10 });
  const told = await checkout(api.url, product, 'ann');
  expect(told.data).toMatchObject({ status: 'completed', durability: 'replicated' });
  const payments = new PaymentService(api.url);

  replica.engine.kill('SIGSTOP');
  const refused = await checkout(api.url, product, 'bob');
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, expect.stringMatching(/^\d+$/)]);
  expect((await payments.confirm(told.data.reservation_id)).status).toBe(503);
  expect((await checkout(api.url, product, 'ann')).status).toBe(503);
  replica.engine.kill('SIGCONT');
  const retried = await until('the retry is answered', async () => {
    const answer = await checkout(api.url, product, 'bob');
    return answer.status === 200 ? answer : null;
  });
  expect(retried.data).toMatchObject({ status: 'completed', durability: 'replicated' });
  expect((await payments.confirm(told.data.reservation_id)).status).toBe(200);

  // The primary is cut off from its replica, which is promoted; one API stays with it.
  await promote(replica);
  const isolated = await checkout(api.url, product, 'cid');
  expect(isolated.status).toBe(503);
  for (const member of [worker, api]) await moveTo(member, replica);
  const third = await stage.startNode(replica);
  await until('the new replica is counted', async () =>
    /slave0:.*state=online/.test(String(await replica.redis.info('replication'))),
  );
  await ready(api);
  const after = await until('the retry is answered', async () => {
    const answer = await checkout(api.url, product, 'cid');
    return answer.status === 200 ? answer : null;
  });
  expect(after.data.durability).toBe('replicated');
  expect((await checkout(api.url, product, 'ann')).data).toEqual(told.data);
  await expectWhole(stage, replica, product);
  expect(third.engine.pid).toBeGreaterThan(0);
});

test('with confirmation durable no response acknowledges what Postgres does not have', async () => {
  const stage = await ReplicatedStage.set();
  const node = await stage.startNode();
  const worker = await stage.startWorker(node);
  const api = await stage.startApi(node);
  const product = await new Operator(api.url).openCampaign({ ...TERMS, total_limit: 2, confirmation: 'durable' });
  const payments = new PaymentService(api.url);
  const [ann, bob, cid] = ['ann', 'bob', 'cid'].map((user) => new Shopper(api.url, product, user));
  // A worker that has just started may commit too late for the first response.
  const insist = (shopper: Shopper, key = randomUUID()) =>
    until('the unit is acknowledged', async () => {
      const answer = await shopper.checkoutWithHeader(key);
      return answer.status === 503 ? null : answer;
    });
  const held = [await insist(ann!), await insist(bob!)];
  expect(held.map(({ data }) => data.durability)).toEqual(['committed', 'committed']);
  process.kill(worker.process.pid, 'SIGSTOP');
  const calls = {
    'a place in line': () => checkout(api.url, product, 'cid'),
    'the same place again': () => checkout(api.url, product, 'cid'),
    'the place under another key': () => checkout(api.url, product, 'cid', 'another-key-of-cid'),
    'a payment': () => payments.confirm(held[0]!.data.reservation_id),
    'the payment again': () => payments.confirm(held[0]!.data.reservation_id),
    'a release': () => payments.release(held[1]!.data.reservation_id),
    'a refund': () => payments.refund(held[0]!.data.reservation_id),
    'the status of a shopper': () => cid!.queueStatus(),
  };
  for (const [call, make] of Object.entries(calls)) expect([call, (await make()).status]).toEqual([call, 503]);
  process.kill(worker.process.pid, 'SIGCONT');
  await until('the place is acknowledged', async () => (await checkout(api.url, product, 'cid')).status === 202);
  expect((await payments.release(held[1]!.data.reservation_id)).status).toBe(200);
  expect((await payments.refund(held[0]!.data.reservation_id)).status).toBe(200);
  await expectWhole(stage, node, product);
});

test('after a restore of an older Postgres with an emptied Redis the running APIs serve again', async () => {
  const stage = await ReplicatedStage.set();
  const node = await stage.startNode();
  const worker = await stage.startWorker(node);
  const api = await stage.startApi(node);
  const product = await new Operator(api.url).openCampaign({ ...TERMS, total_limit: 10 });
  await checkout(api.url, product, 'early');
  const persisted = () => until('everything is persisted', async () => (await node.redis.xlen('db1:journal')) === 0);
  await persisted();
  const [before] = await stage.query<{ last_id: string }>('select last_id from journal_cursor');
  await checkout(api.url, product, 'late');
  await persisted();
  // What a restore to that moment leaves.
  await stage.query(`delete from redemptions where user_id = 'late'`);
  await stage.query('update journal_cursor set last_id = $1', [before?.last_id]);
  const count = recoveriesOf(worker);
  await node.redis.flushall();
  await until('the worker has put Redis into service', () => recoveriesOf(worker) > count);
  await ready(api);
  expect((await checkout(api.url, product, 'new')).status).toBe(200);
  await persisted();
  expect(await stage.statuses(product)).toEqual({ early: 'reserved', new: 'reserved' });
  await expectWhole(stage, node, product);
});
