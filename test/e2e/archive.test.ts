import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, Shopper, send } from '../harness/clients.js';
import { keyNames } from '../harness/key-names.js';
import { EngineProxy } from '../harness/proxy.js';
import { startApiProcess, startService, startWorkerProcess } from '../harness/service.js';
import { ShopperSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

// The worker archives every five seconds.
const service = await startService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const { client: redis } = service.redis;
const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };

const field = (product: string, name: string) => redis.hget(`db1:{${product}}:campaign`, name);
const leftOf = async (product: string) => (await keyNames(redis, `db1:{${product}}:*`)).sort();

/** Closes a campaign as if that had been longer ago than the pause for returning users. */
async function close(product: string): Promise<void> {
  expect((await operator.call('POST', `/admin/campaigns/${product}/close`)).status).toBe(200);
  await redis.hset(`db1:{${product}}:campaign`, 'closed_at', Date.now() - 60_000);
}
const archived = (product: string) =>
  until('it is archived', async () => (await field(product, 'forgotten')) === 'done');

/** What does not change from one answer to the next. */
const said = ({ status, text, body, headers }: Answer) =>
  status < 400
    ? { status, text, replayed: headers.get('idempotent-replayed') }
    : { status, code: body.code, original: body.original_status, data: JSON.stringify(body.data) };

type Sale = { product: string; people: Shopper[]; ids: string[]; keys: string[] };

/** One paid, one released, one left the line, one stays in it to the end. */
async function sell(terms: Record<string, unknown> = {}): Promise<Sale> {
  const product = await operator.openCampaign({
    total_limit: 2,
    hold_seconds: 600,
    waiting_room: { enabled: true },
    require_attestation: false,
    ...terms,
  });
  const people = Array.from({ length: 4 }, () => new Shopper(service.url, product));
  const keys = people.map(() => randomUUID());
  const answers: Answer[] = [];
  for (const [i, shopper] of people.entries()) answers.push(await shopper.checkoutWithHeader(String(keys[i])));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 202, 202]);
  const ids = answers.slice(0, 2).map(({ data }) => String(data.reservation_id));
  expect((await payments.confirm(String(ids[0]))).status).toBe(200);
  expect((await people[2]?.leave())?.status).toBe(200);
  return { product, people, ids, keys };
}

async function askAll({ people, ids, keys }: Sale): Promise<unknown[]> {
  const answers: Answer[] = [];
  for (const [i, shopper] of people.entries()) {
    answers.push(await shopper.queueStatus(), await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) }));
    answers.push(await shopper.checkoutWithHeader(String(keys[i])));
    answers.push(await shopper.checkout({ idempotency_key: keys[i] }));
    answers.push(await shopper.checkoutWithHeader(String(keys[i]), { qty: 2 }));
    answers.push(await shopper.leave());
  }
  for (const id of ids) answers.push(await payments.confirm(id), await payments.release(id));
  return answers.map(said);
}

test('an archived campaign returns the same responses byte for byte, refuses new users, and its ledger is clean', async () => {
  const sold = await sell();
  const { product, people, ids } = sold;
  await payments.release(String(ids[1]));
  await until('the next has the unit', async () => (await people[3]?.queueStatus())?.data.status === 'promoted');
  const promoted = await people[3]?.queueStatus({ 'x-ticket': String(people[3]?.ticket) });
  expect((await payments.confirm(String(promoted?.data.reservation_id))).status).toBe(200);
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  const before = await askAll(sold);
  await close(product);
  await archived(product);
  expect(await leftOf(product)).toEqual([`db1:{${product}}:campaign`]);
  expect(await keyNames(redis, 'db1:i:*')).toEqual([]);
  expect(await ledger(service.env, product)).toMatchObject({
    code: 0,
    verdict: { confirmed: 3, persisted: 3, ...CLEAN },
  });
  expect(await askAll(sold)).toEqual(before);
  const late = new Shopper(service.url, product);
  expectProblem(await late.checkout(), 410, 'campaign_ended');
  expect((await late.queueStatus()).data).toMatchObject({ status: 'not_queued', position: null, queue_size: 0 });
  expectProblem(
    await payments.confirm(`${String(ids[0]).slice(0, 8)}-0000-7000-8000-0000${String(ids[0]).slice(28)}`),
    404,
    'reservation_not_found',
  );
  const refunded = await payments.refund(String(ids[0]));
  expect(refunded.data).toMatchObject({ status: 'refunded', returned_to_stock: true });
  expect((await payments.refund(String(ids[0]))).text).toBe(refunded.text);
  await until('Postgres has the refund', async () => (await redis.xlen('db1:journal')) === 0);
  const { rows } = await service.database.client.query('select status from redemptions where redemption_id = $1', [
    ids[0],
  ]);
  expect(rows).toEqual([{ status: 'refunded' }]);
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: CLEAN });
  const reconciled = await operator.call('POST', `/admin/campaigns/${product}/reconcile`);
  expect(reconciled).toMatchObject({ status: 200, data: { ...CLEAN, repaired: { written: 0, refilled: false } } });
});

test('wrong counters of an archived campaign are found, and an operator repairs them', async () => {
  const { product, ids } = await sell();
  await payments.release(String(ids[1]));
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  await until('nothing is held', async () => {
    const standing = await operator.stats(product);
    for (const { redemption_id } of (
      await service.database.client.query("select redemption_id from redemptions where status = 'reserved'")
    ).rows)
      await payments.release(redemption_id);
    return standing.held === 0;
  });
  await close(product);
  await archived(product);
  await redis.hset(`db1:{${product}}:campaign`, 'redeemed', 2, 'free', 0);
  expect(await ledger(service.env, product)).toMatchObject({ code: 1, verdict: { drift: 1 } });
  const result = await operator.call('POST', `/admin/campaigns/${product}/reconcile`);
  expect(result.data).toMatchObject({ ...CLEAN, before: { drift: 1 }, repaired: { refilled: true } });
  expect(await field(product, 'archived')).toMatch(/^\d+-\d+\/\d+@/);
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: CLEAN });
});

test('all responses are the same after Redis lost its data, and archived campaigns stay out of Redis', async () => {
  const sold = await sell();
  const { product, ids } = sold;
  expect((await payments.confirm(String(ids[1]))).status).toBe(200);
  await operator.call('POST', `/admin/campaigns/${product}/close`);
  const before = await askAll(sold);
  await close(product);
  await archived(product);
  await redis.flushall();
  await until('it serves again', async () => (await fetch(`${service.url}/readyz`)).ok);
  expect(await leftOf(product)).toEqual([`db1:{${product}}:campaign`]);
  expect(await askAll(sold)).toEqual(before);
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: CLEAN });
});

test('a welcome has the status of an archived user, and another worker archives after one was killed', async () => {
  const { product, people, ids } = await sell();
  expect((await payments.confirm(String(ids[1]))).status).toBe(200);
  await until('Postgres has it', async () => (await redis.xlen('db1:journal')) === 0);
  await service.worker.kill();
  await close(product);
  service.worker = await startWorkerProcess(service.env);
  await archived(product);
  const socket = await new ShopperSocket(service.url, String(people[0]?.ticket)).opened();
  expect(await socket.frame('welcome')).toMatchObject({ status: 'redeemed', reservation_id: ids[0] });
  await socket.hangUp();
});

test('a redemption by code after the end gets campaign_ended', async () => {
  const code = `OVER${Date.now()}`;
  const product = await operator.openCampaign({ code, total_limit: 5, require_attestation: false });
  const redeem = (user: string, key: string) =>
    send(`${service.url}/coupons/redeem`, {
      method: 'POST',
      headers: { 'idempotency-key': key },
      json: { code, user_id: user, order_id: `cart-${user}` },
    });
  const first = await redeem('ann', 'key-of-ann');
  expect(first.status).toBe(201);
  await close(product);
  await archived(product);
  const again = await redeem('ann', 'key-of-ann');
  expect([again.status, again.text]).toEqual([201, first.text]);
  expectProblem(await redeem('bob', 'key-of-bob'), 410, 'campaign_ended');
});

test('a returning user gets Retry-After while Postgres is away, and the response when it is back', async () => {
  const { product, people, ids } = await sell();
  expect((await payments.confirm(String(ids[1]))).status).toBe(200);
  await close(product);
  await archived(product);
  const database = new URL(service.database.url);
  const proxy = await EngineProxy.before(Number(database.port));
  database.host = `127.0.0.1:${proxy.port}`;
  const { url } = await startApiProcess({ ...service.env, DATABASE_URL: database.href });
  const elsewhere = new Shopper(url, product, String(people[0]?.user));
  await elsewhere.getToken();
  await proxy.swallow();
  const calls = [
    () => new PaymentService(url).confirm(String(ids[0])),
    () => elsewhere.queueStatus(),
    () => elsewhere.checkout(),
  ];
  for (const call of calls) expectProblem(await call(), 503, 'temporarily_unavailable');
  await proxy.heal();
  const answers = await until('Postgres is back', async () => {
    const confirmed = await new PaymentService(url).confirm(String(ids[0]));
    return confirmed.status === 200 && [confirmed, await elsewhere.queueStatus(), await elsewhere.checkout()];
  });
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 410]);
  expect(answers[1]?.data.status).toBe('redeemed');
});

test('a campaign that was closed eight days ago answers as before after Redis has lost its data', async () => {
  const sale = await sell();
  const { product, people, ids } = sale;
  expect((await payments.release(String(ids[1]))).status).toBe(200);
  await until(
    'the one in the line is promoted',
    async () => (await people[3]?.queueStatus())?.data.status === 'promoted',
  );
  const promoted = (await people[3]?.queueStatus({ 'x-ticket': String(people[3]?.ticket) }))?.data.reservation_id;
  expect((await payments.confirm(String(promoted))).status).toBe(200);
  await close(product);
  await archived(product);
  const ask = async () => {
    const [paid, last] = [people[0] as Shopper, people[3] as Shopper];
    const { confirmed_per_second: _, ...stats } = await operator.stats(product);
    const answers = [
      await payments.confirm(String(ids[0])),
      await payments.release(String(ids[1])),
      await paid.queueStatus(),
      await last.queueStatus(),
      await new Shopper(service.url, product, 'a-stranger').checkout(),
    ];
    return [...answers.map(({ status, body }) => [status, body.code ?? JSON.stringify(body.data)]), stats];
  };
  const before = await ask();
  expect(before[4]).toEqual([410, 'campaign_ended']);
  await service.database.client.query(
    "update campaigns set updated_at = now() - interval '8 days' where product_id = $1",
    [product],
  );
  await redis.flushall();
  await until('Redis is filled', async () => (await redis.exists('db1:epoch')) === 1);
  await until('it serves', async () => (await fetch(`${service.url}/readyz`)).ok);
  expect(await ask()).toEqual(before);
  expect((await payments.refund(String(ids[0]))).data.status).toBe('refunded');
  await until('the journal is written', async () => (await redis.xlen('db1:journal')) === 0);
  expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: CLEAN });
});
