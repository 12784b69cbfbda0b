import { afterEach, expect, test } from '@jest/globals';
import pg from 'pg';
import { Journal } from '../../shared/redis/journal.js';
import { atEnd, runCleanups } from '../harness/cleanup.js';
import { type Answer, Operator, PaymentService, Shopper, send } from '../harness/clients.js';
import { Crowd } from '../harness/crowd.js';
import { failOver, moveTo, promote, ReplicatedStage, ready } from '../harness/replicated-stage.js';
import { until } from '../harness/until.js';
import { expectNothingLost, ledger } from '../harness/verdict.js';

// Each test has a stage of its own; a stage that idles takes the CPU from the others.
afterEach(runCleanups);

const TERMS = { hold_seconds: 600, waiting_room: { enabled: true }, require_attestation: false };

type Buyer = { user: string; key: string; answer: Answer };

/** Checks out as many new users, one after the other. */
async function buy(url: string, product: string, users: readonly string[]): Promise<Buyer[]> {
  const buyers: Buyer[] = [];
  for (const user of users) buyers.push(await buyOnce(url, product, user, `key-of-${product}-${user}`));
  return buyers;
}

async function buyOnce(url: string, product: string, user: string, key: string): Promise<Buyer> {
  const answer = await send(`${url}/flash-sale/checkout`, {
    method: 'POST',
    headers: { 'idempotency-key': key },
    json: { product_id: product, user_id: user, qty: 1 },
  });
  return { user, key, answer };
}

const named = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}-${i}`);

async function everythingPersisted(stage: ReplicatedStage, product: string, rows: number): Promise<void> {
  await until('everything is persisted', async () => Object.keys(await stage.statuses(product)).length >= rows);
}

/** Holds the cursor, so that nothing is committed, until it is let go. */
async function holdCursor(stage: ReplicatedStage): Promise<() => Promise<void>> {
  const client = new pg.Client(stage.postgres.url);
  client.on('error', () => {});
  await client.connect();
  atEnd('the holder', () => client.end().catch(() => {}));
  await client.query('begin');
  await client.query('select * from journal_cursor for update');
  return async () => {
    await client.query('rollback');
  };
}

test('a stale Redis is not taken into service by processes that start before Postgres answers', async () => {
  const stage = await ReplicatedStage.set();
  const node = await stage.startNode();
  const first = [await stage.startWorker(node), await stage.startApi(node)];
  const api = first[1]!;
  const operator = new Operator(api.url);
  const product = await operator.openCampaign({ ...TERMS, total_limit: 10 });
  const early = await buy(api.url, product, named('early', 2));
  await everythingPersisted(stage, product, 2);
  const old = await stage.snapshot(node);
  const late = await buy(api.url, product, named('late', 8));
  const paid = late[0]!.answer.data.reservation_id;
  expect((await new PaymentService(api.url).confirm(paid, 'pay-1')).status).toBe(200);
  await until('it is redeemed', async () => (await stage.statuses(product))['late-0'] === 'redeemed');
  for (const { process } of first) await process.stop();
  await node.engine.stop();

  const stale = await stage.startNode(null, old);
  const late2 = { withPostgres: false };
  const [api2, worker2] = await Promise.all([stage.startApi(stale, late2), stage.startWorker(stale, late2)]);
  const refused = await buyOnce(api2.url, product, 'stranger', 'key-of-a-stranger');
  expect(refused.answer.status).toBe(503);
  for (const { postgres } of [api2, worker2]) await postgres.heal();
  await ready(api2);
  const strangers = await buy(api2.url, product, named('stranger', 3));
  expect(strangers.map(({ answer }) => answer.status)).toEqual([202, 202, 202]);
  expect((await new PaymentService(api2.url).confirm(paid, 'pay-1')).status).toBe(200);
  for (const { user, key, answer } of [...early, ...late]) {
    const again = await buyOnce(api2.url, product, user, key);
    expect(again.answer.data).toEqual(answer.data);
  }
  const { verdict } = await ledger(stage.env(stale), product);
  expect(verdict).toMatchObject({ confirmed: 10, lost: 0, duplicated: 0, over_cap: 0, drift: 0 });
});

test('what a promoted replica lacks comes back from the processes that acknowledged it', async () => {
  const stage = await ReplicatedStage.set();
  const primary = await stage.startNode();
  const replica = await stage.startNode(primary);
  const worker = await stage.startWorker(primary);
  const api = await stage.startApi(primary);
  const operator = new Operator(api.url);
  const product = await operator.openCampaign({ ...TERMS, total_limit: 16 });
  const reacquired = await operator.openCampaign({ ...TERMS, total_limit: 1, late_payment: 'reacquire' });
  const payments = new PaymentService(api.url);
  await until('the campaigns are on the replica', async () => (await replica.redis.hlen('db1:campaigns')) === 2);
  const letGo = await holdCursor(stage);
  const onBoth = await buy(api.url, product, named('both', 5));
  await until('the replica has them', async () => (await new Journal(replica.redis).backlog()).entries >= 5);
  await replica.redis.replicaof('NO', 'ONE');
  const onPrimary = await buy(api.url, product, named('primary', 11));
  const waiting = await buy(api.url, product, ['waiter', 'leaver', 'last']);
  expect(waiting.map(({ answer }) => answer.data.status)).toEqual(['queued', 'queued', 'queued']);
  const [released, paid, given] = onPrimary.map(({ answer }) => answer.data.reservation_id);
  // The first waiter is promoted and pays; the second one leaves.
  expect((await payments.release(released)).status).toBe(200);
  const status = await send(`${api.url}/flash-sale/queue-status?product_id=${product}&user_id=waiter`, {
    headers: { 'x-ticket': waiting[0]!.answer.data.ticket },
  });
  expect(status.data.status).toBe('promoted');
  expect((await payments.confirm(status.data.reservation_id, 'pay-waiter')).status).toBe(200);
  expect((await payments.confirm(paid, 'pay-1')).status).toBe(200);
  expect((await payments.confirm(given, 'pay-2')).status).toBe(200);
  expect((await payments.refund(given)).status).toBe(200);
  const leave = { method: 'DELETE', headers: { 'x-ticket': waiting[1]!.answer.data.ticket } };
  // The refund has promoted the second waiter already.
  expect([200, 409]).toContain((await send(`${api.url}/flash-sale/queue`, leave)).status);
  const late = (await buy(api.url, reacquired, ['late']))[0]!.answer.data.reservation_id;
  await payments.release(late);
  expect((await payments.confirm(late, 'pay-late')).data).toMatchObject({ reacquired: true });

  primary.engine.kill('SIGKILL');
  await letGo();
  await failOver(worker, api, replica);
  await everythingPersisted(stage, product, 18);
  const statuses = await stage.statuses(product);
  expect(statuses).toMatchObject({
    'primary-0': 'released',
    waiter: 'redeemed',
    'primary-1': 'redeemed',
    'primary-2': 'refunded',
  });
  expect(await stage.statuses(reacquired)).toEqual({ late: 'redeemed' });
  for (const { user, key, answer } of [...onBoth, ...onPrimary]) {
    expect((await buyOnce(api.url, product, user, key)).answer.data).toEqual(answer.data);
  }
  expect((await payments.confirm(status.data.reservation_id, 'pay-waiter')).status).toBe(200);
  expect((await payments.refund(given)).status).toBe(200);
  for (const one of [product, reacquired]) {
    const { verdict } = await ledger(stage.env(replica), one);
    expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
  }
  expect(await stage.query('select reason from journal_rejects')).toEqual([]);
});

/** Two APIs on a primary whose replica lacks everything that follows, while Postgres commits nothing. */
async function twoApisBeforeFailover(terms: Record<string, unknown>) {
  const stage = await ReplicatedStage.set();
  const primary = await stage.startNode();
  const replica = await stage.startNode(primary);
  const worker = await stage.startWorker(primary);
  const [first, second] = [await stage.startApi(primary), await stage.startApi(primary)];
  const product = await new Operator(first.url).openCampaign({ ...TERMS, ...terms });
  await until(
    'the campaign is on the replica',
    async () => (await replica.redis.exists(`db1:{${product}}:campaign`)) === 1,
  );
  const letGo = await holdCursor(stage);
  await replica.redis.replicaof('NO', 'ONE');
  return {
    ...{ stage, primary, replica, first, second, product },
    /** The primary dies, and the second API and the worker go to the replica. */
    failOver: async () => {
      primary.engine.kill('SIGKILL');
      await letGo();
      await failOver(worker, second, replica);
    },
    expectClean: async () => {
      const { verdict } = await ledger(stage.env(replica), product);
      expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
      expect(await stage.query('select reason from journal_rejects')).toEqual([]);
    },
  };
}

test('what a dead API acknowledged comes back from the API that acknowledged it again', async () => {
  const { stage, first, second, product, ...scene } = await twoApisBeforeFailover({ total_limit: 5 });
  const bought = await buy(first.url, product, named('buyer', 5));
  const [waiter, leaver] = await buy(first.url, product, ['waiter', 'leaver']);
  const [paid, refunded, released] = bought.map(({ answer }) => answer.data.reservation_id);
  const leave = (url: string) =>
    send(`${url}/flash-sale/queue`, { method: 'DELETE', headers: { 'x-ticket': leaver!.answer.data.ticket } });
  const settle = async (url: string) => {
    const payments = new PaymentService(url);
    return [
      await payments.confirm(paid, 'pay-1'),
      await payments.confirm(refunded, 'pay-2'),
      await leave(url),
      await payments.refund(refunded),
      await payments.release(released),
    ].map(({ status }) => status);
  };
  expect(await settle(first.url)).toEqual([200, 200, 200, 200, 200]);
  await first.process.kill();

  const again = async () => {
    for (const { user, key, answer } of [...bought, waiter!]) {
      const replay = await buyOnce(second.url, product, user, key);
      expect(replay.answer.headers.get('idempotent-replayed')).toBe('true');
      expect(replay.answer.data).toEqual(answer.data);
    }
    const payments = new PaymentService(second.url);
    expect((await payments.confirm(paid, 'pay-1')).status).toBe(200);
    expect((await payments.refund(refunded)).status).toBe(200);
    expect((await payments.release(released)).status).toBe(200);
    expect((await leave(second.url)).status).toBe(200);
  };
  await again();
  await scene.failOver();
  expect(await stage.statuses(product)).toMatchObject({
    'buyer-0': 'redeemed',
    'buyer-1': 'refunded',
    'buyer-2': 'released',
    'buyer-3': 'reserved',
    'buyer-4': 'reserved',
    waiter: 'reserved',
  });
  expect(
    await stage.query(`select payment_ref from redemptions where user_id in ('buyer-0', 'buyer-1') order by 1`),
  ).toEqual([{ payment_ref: 'pay-1' }, { payment_ref: 'pay-2' }]);
  await again();
  await scene.expectClean();
});

test('a place that a dead API acknowledged comes back from the API that acknowledged it under another key', async () => {
  const { stage, first, second, product, ...scene } = await twoApisBeforeFailover({ total_limit: 0 });
  const [ahead, waiter] = await buy(first.url, product, ['ahead', 'waiter']);
  expect([ahead, waiter].map((one) => one?.answer.status)).toEqual([202, 202]);
  await first.process.kill();
  const others = [
    await buyOnce(second.url, product, 'ahead', 'another-key-of-ahead'),
    await buyOnce(second.url, product, 'waiter', 'another-key-of-waiter'),
  ];
  expect(others.map(({ answer }) => answer.data.position)).toEqual([1, 2]);
  await scene.failOver();
  const places = await stage.query('select user_id, line_no, status from waiting_tickets order by line_no');
  expect(places).toEqual([
    { user_id: 'ahead', line_no: '1', status: 'waiting' },
    { user_id: 'waiter', line_no: '2', status: 'waiting' },
  ]);
  for (const { user, key, answer } of others) {
    expect((await buyOnce(second.url, product, user, key)).answer.data).toEqual(answer.data);
  }
  await scene.expectClean();
});

test('what a hanging Redis decided without a response is kept once a retry has got the response', async () => {
  const { primary, second, product, ...scene } = await twoApisBeforeFailover({ total_limit: 5 });
  primary.engine.kill('SIGSTOP');
  expect((await buyOnce(second.url, product, 'buyer', 'key-of-the-buyer')).answer.status).toBe(503);
  primary.engine.kill('SIGCONT');
  const retry = await until('the retry is answered', async () => {
    const { answer } = await buyOnce(second.url, product, 'buyer', 'key-of-the-buyer');
    return answer.status === 200 ? answer : null;
  });
  expect(retry.headers.get('idempotent-replayed')).toBe('true');
  await scene.failOver();
  expect((await buyOnce(second.url, product, 'buyer', 'key-of-the-buyer')).answer.data).toEqual(retry.data);
  await scene.expectClean();
});

test('a failover in which nothing is missing refills nothing', async () => {
  const stage = await ReplicatedStage.set();
  const primary = await stage.startNode();
  const replica = await stage.startNode(primary);
  const worker = await stage.startWorker(primary);
  const api = await stage.startApi(primary);
  const product = await new Operator(api.url).openCampaign({ ...TERMS, total_limit: 20 });
  const before = await buy(api.url, product, named('before', 10));
  await until('the replica has everything', async () => {
    const [mine, its] = await Promise.all(
      [primary, replica].map(({ redis }) => redis.hlen(`db1:{${product}}:reservations`)),
    );
    return mine === 10 && its === 10;
  });
  primary.engine.kill('SIGKILL');
  await promote(replica);
  await failOver(worker, api, replica);
  // How long it takes is measured by `npm run bench -- failover`; here it is what was done.
  expect(worker.process.log.filter((line) => line.includes('was verified')).length).toBe(1);
  expect((await buyOnce(api.url, product, 'before-3', before[3]!.key)).answer.data).toEqual(before[3]!.answer.data);
  expect((await buy(api.url, product, named('after', 11))).map(({ answer }) => answer.status)).toEqual([
    ...Array(10).fill(200),
    202,
  ]);
  const { verdict } = await ledger(stage.env(replica), product);
  expect(verdict).toMatchObject({ confirmed: 20, lost: 0, duplicated: 0, over_cap: 0, drift: 0 });
});

test('a replica that is added while people buy costs no entry', async () => {
  const stage = await ReplicatedStage.set();
  const node = await stage.startNode();
  await stage.startWorker(node);
  const { url } = await stage.startApi(node);
  const product = await new Operator(url).openCampaign({ ...TERMS, total_limit: 100_000 });
  const crowd = new Crowd({ product, target: () => url, perSecond: 60 });
  crowd.start();
  const generation = async () => (await node.redis.get('db1:epoch'))?.split('|')[0];
  for (let replicas = 1; replicas <= 3; replicas += 1) {
    const [before, sold] = [await generation(), crowd.completed.length];
    await until('people buy', () => crowd.completed.length >= sold + 50);
    // The primary changes its id when it gets its first replica.
    const replica = await stage.startNode(node);
    await until('the next history has begun', async () => ![before, undefined].includes(await generation()));
    await replica.redis.replicaof('NO', 'ONE');
    await node.redis.config('SET', 'repl-backlog-ttl', 1);
    await until('the primary has forgotten it', async () =>
      (await node.redis.info('replication')).includes('repl_backlog_active:0'),
    );
  }
  await crowd.finish();
  const client = new pg.Client(stage.postgres.url);
  atEnd('a client', () => client.end());
  await client.connect();
  await expectNothingLost(crowd, stage.env(node), client, product);
});

test('an API that stays on an isolated primary loses nothing that it acknowledges, and then acknowledges nothing', async () => {
  const stage = await ReplicatedStage.set();
  const primary = await stage.startNode();
  const replica = await stage.startNode(primary);
  const worker = await stage.startWorker(primary);
  const isolated = await stage.startApi(primary);
  const other = await stage.startApi(primary);
  const product = await new Operator(other.url).openCampaign({ ...TERMS, total_limit: 100 });
  await until(
    'the campaign is on the replica',
    async () => (await replica.redis.exists(`db1:{${product}}:campaign`)) === 1,
  );
  await promote(replica);
  const acknowledged = await buy(isolated.url, product, named('isolated', 9));
  const [paid] = acknowledged.map(({ answer }) => answer.data.reservation_id);
  expect((await new PaymentService(isolated.url).confirm(paid, 'pay-1')).status).toBe(200);
  await failOver(worker, other, replica);
  const refused = await buyOnce(isolated.url, product, 'refused', 'key-of-the-refused');
  expect(refused.answer.status).toBe(503);
  const after = await buy(other.url, product, named('other', 5));
  await moveTo(isolated, replica);
  await ready(isolated);
  await everythingPersisted(stage, product, 14);
  for (const { user, key, answer } of [...acknowledged, ...after]) {
    expect((await buyOnce(isolated.url, product, user, key)).answer.data).toEqual(answer.data);
  }
  expect((await stage.statuses(product))['isolated-0']).toBe('redeemed');
  const { verdict } = await ledger(stage.env(replica), product);
  expect(verdict).toMatchObject({ confirmed: 14, lost: 0, duplicated: 0, over_cap: 0, drift: 0 });
});

test('a key under which both sides of a partition gave a unit repeats the one that is in force', async () => {
  const stage = await ReplicatedStage.set();
  const primary = await stage.startNode();
  const replica = await stage.startNode(primary);
  const worker = await stage.startWorker(primary);
  const isolated = await stage.startApi(primary);
  const other = await stage.startApi(primary);
  const product = await new Operator(other.url).openCampaign({ ...TERMS, total_limit: 100 });
  await until(
    'the campaign is on the replica',
    async () => (await replica.redis.exists(`db1:{${product}}:campaign`)) === 1,
  );
  await promote(replica);
  // So that Postgres does not learn of the first unit.
  await worker.process.kill();
  const unitOf = async (url: string) => (await buyOnce(url, product, 'ann', 'key-of-ann')).answer.data.reservation_id;
  const first = await unitOf(isolated.url);
  // Kept by the API as a promise that was acknowledged again.
  expect(await unitOf(isolated.url)).toBe(first);
  await isolated.postgres.swallow();
  await stage.startWorker(replica);
  await moveTo(other, replica);
  await ready(other);
  const inForce = await unitOf(other.url);
  expect(inForce).not.toBe(first);
  await isolated.postgres.heal();
  await moveTo(isolated, replica);
  await ready(isolated);
  const rows = () => stage.query<{ id: string; status: string }>('select redemption_id as id, status from redemptions');
  const statusOf = async (id: string) => (await rows()).find((row) => row.id === id)?.status;
  await until('both are known', async () => (await statusOf(first)) === 'voided');
  expect(await statusOf(inForce)).toBe('reserved');
  for (const member of [isolated, other]) {
    await ready(member);
    expect(await unitOf(member.url)).toBe(inForce);
  }
});

test('a worker on each side of a partition: what the surviving side acknowledges is persisted, all of it', async () => {
  const stage = await ReplicatedStage.set();
  const primary = await stage.startNode();
  const replica = await stage.startNode(primary);
  const [oldWorker, newWorker] = [await stage.startWorker(primary), await stage.startWorker(primary)];
  const [oldApi, newApi] = [await stage.startApi(primary), await stage.startApi(primary)];
  const operator = new Operator(oldApi.url);
  const [left, right] = [
    await operator.openCampaign({ ...TERMS, total_limit: 500 }),
    await operator.openCampaign({ ...TERMS, total_limit: 500 }),
  ];
  await until('the campaigns are on the replica', async () => (await replica.redis.hlen('db1:campaigns')) === 2);
  await promote(replica);
  const onOldSide = await buy(oldApi.url, left, named('left', 30));
  await failOver(newWorker, newApi, replica);
  const onNewSide = await buy(newApi.url, right, named('right', 60));
  await everythingPersisted(stage, right, 60);
  expect(onNewSide.every(({ answer }) => answer.status === 200)).toBe(true);
  for (const member of [oldWorker, oldApi]) await moveTo(member, replica);
  await ready(oldApi);
  const kept = onOldSide.filter(({ answer }) => answer.status === 200);
  await everythingPersisted(stage, left, kept.length);
  for (const product of [left, right]) {
    const { verdict } = await ledger(stage.env(replica), product);
    expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0 });
  }
});

test('after a demotion with open connections every process finds the new primary', async () => {
  const stage = await ReplicatedStage.set();
  const primary = await stage.startNode();
  const replica = await stage.startNode(primary);
  const worker = await stage.startWorker(primary);
  const api = await stage.startApi(primary);
  const product = await new Operator(api.url).openCampaign({ ...TERMS, total_limit: 20 });
  await buy(api.url, product, named('before', 3));
  for (const member of [api, worker]) await member.redis.switchTo(replica.engine.port, { keep: true });
  await primary.redis.call('FAILOVER', 'TIMEOUT', '5000');
  await until('the replica is the primary', async () => String(await replica.redis.call('ROLE')).startsWith('master'));
  await until('a checkout succeeds', async () => {
    const { answer } = await buyOnce(api.url, product, 'after', 'key-after-the-demotion');
    return answer.status === 200;
  });
  expect((await fetch(`${api.url}/readyz`)).status).toBe(200);
  await everythingPersisted(stage, product, 4);
  const { verdict } = await ledger(stage.env(replica), product);
  expect(verdict).toMatchObject({ confirmed: 4, lost: 0, duplicated: 0, over_cap: 0, drift: 0 });
});

test('people who were promoted, expired or in line while Postgres was away come back as they were', async () => {
  const stage = await ReplicatedStage.set();
  const node = await stage.startNode();
  await stage.startWorker(node);
  const api = await stage.startApi(node);
  const product = await new Operator(api.url).openCampaign({ ...TERMS, total_limit: 3, hold_seconds: 1 });
  const payments = new PaymentService(api.url);
  const letGo = await holdCursor(stage);
  await buy(api.url, product, ['alice', 'bob', 'cid']);
  const [carol, dave, erin] = ['carol', 'dave', 'erin'].map((user) => new Shopper(api.url, product, user));
  for (const shopper of [carol!, dave!, erin!]) expect((await shopper.checkout()).status).toBe(202);
  const reservations: string[] = [];
  for (const shopper of [carol!, dave!, erin!]) {
    const standing = await until('the shopper is promoted', async () => {
      const status = await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
      return status.data.status === 'promoted' ? status.data : null;
    });
    reservations.push(standing.reservation_id);
    expect((await payments.confirm(standing.reservation_id, `pay-${shopper.user}`)).status).toBe(200);
  }
  expect((await new Shopper(api.url, product, 'alice').checkout()).status).toBe(202);
  await node.redis.flushall();
  await letGo();
  await ready(api);
  await everythingPersisted(stage, product, 6);
  expect(await stage.statuses(product)).toMatchObject({
    alice: 'expired',
    bob: 'expired',
    cid: 'expired',
    carol: 'redeemed',
    dave: 'redeemed',
    erin: 'redeemed',
  });
  for (const reservation of reservations) expect((await payments.refund(reservation)).status).toBe(200);
  const { verdict } = await ledger(stage.env(node), product);
  expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
});
