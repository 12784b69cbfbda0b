import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { keys } from '../../shared/redis/keys.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, type Shopper, send } from '../harness/clients.js';
import { erase } from '../harness/erasure.js';
import { startReceiver } from '../harness/receiver.js';
import { SERVICE_SECRET, sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { tablesWith } from '../harness/stored-text.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

/** What a shop attaches to a claim returns with the reservation and its events. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const receiver = await startReceiver();
const { client: redis } = service.redis;
await operator.call('POST', '/admin/webhooks', { url: receiver.url });

const METADATA = { cart: 'c-17', 'campaign.source': 'newsletter "May" — ünïcode', empty: '' };
const read = (id: string) =>
  send(`${service.url}/flash-sale/reservations/${id}`, { headers: { authorization: `Bearer ${SERVICE_SECRET}` } });
const written = (id: string): Promise<Answer> =>
  until('it is written', async () => {
    const answer = await read(id);
    return answer.data.written === true && answer;
  });
/** The data of the events of a reservation, of the webhook and of the stream. */
async function eventsOf(id: string, count: number) {
  await until(
    'the events have come',
    () => receiver.received.filter(({ event }) => event.subject === id).length >= count,
  );
  const streamed = (await redis.xrange(keys.events, '-', '+')).map(([, fields]) =>
    JSON.parse(String(fields[fields.indexOf('event') + 1])),
  );
  return [...receiver.received.map(({ event }) => event), ...streamed].filter(({ subject }) => subject === id);
}

test('metadata of a checkout is in the reservation, the search and each event, and of others nowhere', async () => {
  const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900 });
  const { data } = await arrive(service.url, product).checkout({ metadata: METADATA });
  const id = String(data.reservation_id);
  expect(data.metadata).toBeUndefined();
  expect((await written(id)).data.metadata).toEqual(METADATA);
  await payments.confirm(id);
  const plain = String((await arrive(service.url, product).checkout()).data.reservation_id);
  const none = String((await arrive(service.url, product).checkout({ metadata: {} })).data.reservation_id);
  expect((await operator.call('GET', `/admin/redemptions?reservation_id=${id}`)).data[0].metadata).toEqual(METADATA);
  for (const { data: event } of await eventsOf(id, 2)) expect(event.metadata).toEqual(METADATA);
  for (const other of [plain, none]) {
    expect((await written(other)).data).not.toHaveProperty('metadata');
    for (const { data: event } of await eventsOf(other, 1)) expect(event).not.toHaveProperty('metadata');
  }
  const { code, verdict } = await ledger(service.env, product);
  expect([code, verdict.confirmed]).toEqual([0, 3]);
});

test('a place in line keeps its metadata until the promotion, also when Redis was lost', async () => {
  const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900, waiting_room: { enabled: true } });
  const holders = [arrive(service.url, product), arrive(service.url, product)];
  const held: string[] = [];
  for (const holder of holders) held.push(String((await holder.checkout()).data.reservation_id));
  const waiting = [arrive(service.url, product), arrive(service.url, product)];
  for (const [i, shopper] of waiting.entries())
    expect((await shopper.checkout({ metadata: { ...METADATA, nth: String(i) } })).status).toBe(202);
  const promoted = async (nth: number) => {
    const shopper = waiting[nth] as Shopper;
    await until('they are promoted', async () => (await shopper.queueStatus()).data.status === 'promoted');
    const { data } = await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
    return String(data.reservation_id);
  };
  await payments.release(String(held[0]));
  const first = await promoted(0);
  expect((await written(first)).data.metadata).toEqual({ ...METADATA, nth: '0' });
  await redis.flushall();
  await until('Redis is refilled', async () => (await operator.stats(product)).waiting === 1);
  await payments.release(String(held[1]));
  const second = await promoted(1);
  expect((await written(second)).data.metadata).toEqual({ ...METADATA, nth: '1' });
  for (const { data } of await eventsOf(second, 2)) expect(data.metadata).toEqual({ ...METADATA, nth: '1' });
  expect((await ledger(service.env, product)).code).toBe(0);
});

test('metadata of a redemption by code is kept, and a replay keeps that of the first request', async () => {
  const code = `META${randomUUID().slice(0, 8)}`.toUpperCase();
  await operator.openCampaign({ type: 'shared', code, total_limit: 5 });
  const body = { code, user_id: `user-${randomUUID()}`, order_id: `basket-${randomUUID()}` };
  const redeem = (metadata: unknown) =>
    send(`${service.url}/coupons/redeem`, {
      method: 'POST',
      headers: { 'idempotency-key': `key-of-${body.user_id}` },
      json: { ...body, metadata },
    });
  const redeemed = await redeem(METADATA);
  expect(redeemed.status).toBe(201);
  expect((await redeem({ another: 'one' })).text).toBe(redeemed.text);
  expect((await written(redeemed.data.reservation_id)).data.metadata).toEqual(METADATA);
  await erase(operator, body.user_id);
  expect(await tablesWith(service.database.client, body.user_id)).toEqual({});
  expect((await written(redeemed.data.reservation_id)).data).not.toHaveProperty('metadata');
});

test('metadata has a bounded size and only texts', async () => {
  const product = await operator.openCampaign({ total_limit: 5 });
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`name-${i}`, 'x'.repeat(80)]));
  expect((await arrive(service.url, product).checkout({ metadata: many })).status).toBe(200);
  const cases: unknown[] = [{ a: 1 }, { a: 'x'.repeat(501) }, { ...many, one: 'more' }, ['a'], 'a', { 'a b': 'c' }];
  for (const metadata of cases) {
    const refused = await arrive(service.url, product).checkout({ metadata });
    expectProblem(refused, 400, 'invalid_request');
    expect(refused.body.errors[0].pointer).toMatch(/^#\/metadata/);
  }
});
