import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem, expectRows, expectStock, pointersOf } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, send } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import {
  arrive,
  checkoutAtOnce,
  checkoutInTurn,
  countStatuses,
  gatherShoppers,
  withinASecond,
} from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { redisSeconds, signToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

// The effects of a campaign's terms and status on shoppers.

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

async function change(product: string, action: 'open' | 'pause' | 'resume' | 'close'): Promise<void> {
  const answer = await operator.call('POST', `/admin/campaigns/${product}/${action}`);
  if (answer.status !== 200) throw new Error(`${action} failed: ${answer.text}`);
}

const statusOfCampaign = async (product: string) =>
  (await operator.call('GET', `/admin/campaigns/${product}`)).data.status;
const newcomer = (product: string) => arrive(service.url, product).checkout();
/** Moves the start or the end of a sale. */
async function reschedule(product: string, times: { starts_at?: string; ends_at?: string }): Promise<void> {
  expect((await operator.call('PATCH', `/admin/campaigns/${product}`, times)).status).toBe(200);
}
const inSeconds = async (seconds: number) => {
  return new Date(Math.ceil((await redisSeconds(service.redis.client)) * 1000 + seconds * 1000)).toISOString();
};

/** The waiting time that a refusal names: whole seconds, at least one. */
function expectRetryAfter(answer: Answer): void {
  expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
}

describe('an operator', () => {
  test('pauses: newcomers are refused, payments go on, units that come back wait for the resumption', async () => {
    const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900, waiting_room: { enabled: true } });
    const [paying, leaving] = await checkoutInTurn(gatherShoppers(service.url, product, 2));
    const waiting = arrive(service.url, product);
    await waiting.checkout();
    await change(product, 'pause');

    const refused = await newcomer(product);
    expectProblem(refused, 503, 'campaign_paused');
    // Those who were sent away do not come back together.
    const refusals = await Promise.all(Array.from({ length: 30 }, () => newcomer(product)));
    for (const each of refusals) expectRetryAfter(each);
    expect(new Set(refusals.map(({ headers }) => headers.get('retry-after'))).size).toBeGreaterThan(1);
    expect((await payments.confirm(String(paying?.data.reservation_id))).status).toBe(200);
    expect((await payments.release(String(leaving?.data.reservation_id))).status).toBe(200);
    expect((await waiting.queueStatus()).data).toMatchObject({ status: 'queued', position: 1 });
    await expectStock(operator, product, { total: 2, free: 1, redeemed: 1, waiting: 1 });

    await change(product, 'resume');
    await until('the unit is the waiting one’s', async () => (await waiting.queueStatus()).data.status === 'promoted');
    await expectStock(operator, product, { total: 2, held: 1, redeemed: 1 });
    expect((await newcomer(product)).data.position).toBe(1);
  });

  test('closes: no user can buy, waiting users are notified, holders can still pay', async () => {
    const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900, waiting_room: { enabled: true } });
    const [paying, leaving] = await checkoutInTurn(gatherShoppers(service.url, product, 2));
    const waiting = arrive(service.url, product);
    await waiting.checkout();
    await change(product, 'close');

    expectProblem(await newcomer(product), 410, 'campaign_ended');
    expect((await waiting.queueStatus()).data).toMatchObject({ status: 'closed', position: null });
    expect((await payments.confirm(String(paying?.data.reservation_id))).status).toBe(200);
    expect((await payments.release(String(leaving?.data.reservation_id))).status).toBe(200);
    await expectStock(operator, product, { total: 2, free: 1, redeemed: 1 });
    await expectRows(service, product, { redeemed: 1, released: 1 });
  });

  test('drafts: to shoppers the campaign does not exist until it is published', async () => {
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, draft: true });
    expectProblem(await newcomer(product), 404, 'campaign_not_found');
    expectProblem(await arrive(service.url, product).queueStatus(), 404, 'campaign_not_found');
    const published = await operator.call('PATCH', `/admin/campaigns/${product}`, { draft: false });
    expect([published.status, published.data.status]).toEqual([200, 'open']);
    expect((await newcomer(product)).status).toBe(200);
  });

  test('opens early: a sale of tomorrow sells now', async () => {
    const product = await operator.openCampaign({
      total_limit: 1,
      hold_seconds: 900,
      starts_at: await inSeconds(86_400),
    });
    const early = await newcomer(product);
    expectProblem(early, 409, 'campaign_not_started');
    expectRetryAfter(early);
    await change(product, 'open');
    expect((await newcomer(product)).status).toBe(200);
  });
});

describe('the clock', () => {
  test('opens a sale at starts_at, and the refused key of before buys then', async () => {
    const tomorrow = await inSeconds(86_400);
    const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, starts_at: tomorrow });
    expect(await statusOfCampaign(product)).toBe('scheduled');
    const shopper = arrive(service.url, product);
    const idempotency_key = randomUUID();
    const early = await shopper.checkout({ idempotency_key });
    expectProblem(early, 409, 'campaign_not_started');
    expect(early.body.starts_at).toBe(tomorrow);
    expectRetryAfter(early);

    const starts_at = await inSeconds(1);
    await reschedule(product, { starts_at });
    await until(
      'the time has come',
      async () => (await redisSeconds(service.redis.client)) >= Date.parse(starts_at) / 1000,
    );
    expect((await shopper.checkout({ idempotency_key })).status).toBe(200);
    await until('operators see it open', async () => (await statusOfCampaign(product)) === 'open');
  });

  test('ends a sale at ends_at: no checkout, no promotion, the line is notified, a held unit can still be paid', async () => {
    const product = await operator.openCampaign({
      total_limit: 2,
      hold_seconds: 900,
      ends_at: await inSeconds(86_400),
      waiting_room: { enabled: true },
    });
    const [paying, leaving] = await checkoutInTurn(gatherShoppers(service.url, product, 2));
    const waiting = arrive(service.url, product);
    await waiting.checkout();
    const socket = await openSocket(service.url, waiting.ticket);
    await socket.frame('welcome');
    const ends_at = await inSeconds(1);
    await reschedule(product, { ends_at });
    await until(
      'the end has come',
      async () => (await redisSeconds(service.redis.client)) >= Date.parse(ends_at) / 1000,
    );

    expectProblem(await newcomer(product), 410, 'campaign_ended');
    expect((await waiting.queueStatus()).data.status).toBe('closed');
    expect((await payments.release(String(leaving?.data.reservation_id))).status).toBe(200);
    expect((await payments.confirm(String(paying?.data.reservation_id))).status).toBe(200);
    await until('operators see it closed', async () => (await statusOfCampaign(product)) === 'closed');
    await socket.frame('closed');
    expect(socket.ofType('promoted')).toEqual([]);
    expect((await waiting.queueStatus()).data.status).toBe('closed');
    await expectStock(operator, product, { total: 2, free: 1, redeemed: 1 });
    await expectRows(service, product, { redeemed: 1, released: 1 });
  });
});

describe('stock and quantity', () => {
  test('hold_seconds 0: nothing is to be paid, the unit is redeemed at once', async () => {
    const product = await operator.openCampaign({ total_limit: 3, hold_seconds: 0 });
    const shopper = arrive(service.url, product);
    const bought = await shopper.checkout();
    expect([bought.status, bought.data.status, bought.data.pay_before]).toEqual([200, 'completed', null]);
    expect((await shopper.queueStatus()).data.status).toBe('redeemed');
    await expectStock(operator, product, { total: 3, free: 2, redeemed: 1 });
    await expectRows(service, product, { redeemed: 1 });
    // A payment service that confirms all the same gets the true status.
    expect((await payments.confirm(String(bought.data.reservation_id))).data.status).toBe('redeemed');
    expectProblem(await payments.release(String(bought.data.reservation_id)), 409, 'reservation_redeemed');
  });

  test('total_limit null: every user gets a unit, and the numbers have no total', async () => {
    const product = await operator.openCampaign({
      total_limit: null,
      hold_seconds: 900,
      waiting_room: { enabled: true },
    });
    const answers = await checkoutAtOnce(gatherShoppers(service.url, product, 100));
    expect(countStatuses(answers)).toEqual({ 200: 100 });
    await payments.confirm(String(answers[0]?.data.reservation_id));
    await payments.release(String(answers[1]?.data.reservation_id));
    expect(await operator.stats(product)).toMatchObject({
      total: null,
      free: null,
      held: 98,
      redeemed: 1,
      burned: 0,
      waiting: 0,
    });
    await expectRows(service, product, { redeemed: 1, released: 1, reserved: 98 });
  });

  test('total_limit 0: sold out from the beginning', async () => {
    const product = await operator.openCampaign({ total_limit: 0 });
    expectProblem(await newcomer(product), 410, 'sold_out');
    await expectStock(operator, product, { total: 0 });
  });

  test('qty: up to max_qty in one redemption, all or nothing, and given back whole', async () => {
    const product = await operator.openCampaign({ total_limit: 5, hold_seconds: 900, max_qty: 3 });
    const tooMany = await arrive(service.url, product).checkout({ qty: 4 });
    expectProblem(tooMany, 400, 'invalid_request');
    expect(pointersOf(tooMany)).toEqual(['#/qty']);
    const three = await arrive(service.url, product).checkout({ qty: 3 });
    expectProblem(await arrive(service.url, product).checkout({ qty: 3 }), 410, 'sold_out');
    expect((await arrive(service.url, product).checkout({ qty: 2 })).status).toBe(200);
    await expectStock(operator, product, { total: 5, held: 5 });
    await payments.release(String(three.data.reservation_id));
    await expectStock(operator, product, { total: 5, free: 3, held: 2 });
    await expectRows(service, product, { released: 1, reserved: 1 });
  });

  test('qty: of fifty who want two at once, thirty get them from 61 units, and a single one gets the last', async () => {
    const product = await operator.openCampaign({ total_limit: 61, hold_seconds: 900, max_qty: 2 });
    const answers = await checkoutAtOnce(gatherShoppers(service.url, product, 50), { qty: 2 });
    expect(countStatuses(answers)).toEqual({ 200: 30, 410: 20 });
    await expectStock(operator, product, { total: 61, free: 1, held: 60 });
    expect((await newcomer(product)).status).toBe(200);
    await expectStock(operator, product, { total: 61, held: 61 });
    await expectRows(service, product, { reserved: 31 });
  });
});

describe('confirmation durable', () => {
  const durable = { total_limit: 1, hold_seconds: 900, confirmation: 'durable', waiting_room: { enabled: true } };
  const rowsOf = async (table: string, column: string, value: string) =>
    (await service.database.client.query(`select 1 from ${table} where ${column} = $1`, [value])).rows.length;

  test('answers when Postgres has the reservation, and says so', async () => {
    const product = await operator.openCampaign(durable);
    const bought = await newcomer(product);
    expect(await rowsOf('redemptions', 'redemption_id', String(bought.data.reservation_id))).toBe(1);
    expect([bought.status, bought.data.durability]).toEqual([200, 'committed']);
  });

  test('answers when Postgres has the place in line, and replays in the same words', async () => {
    const product = await operator.openCampaign(durable);
    await newcomer(product);
    const waiting = arrive(service.url, product);
    const key = randomUUID();
    const queued = await waiting.checkoutWithHeader(key);
    expect(await rowsOf('waiting_tickets', 'user_id', waiting.user)).toBe(1);
    expect([queued.status, (await waiting.checkoutWithHeader(key)).text]).toEqual([202, queued.text]);
  });
});

describe('require_attestation false', () => {
  const buy = (product: string, fields: Record<string, unknown>, headers: Record<string, string> = {}) =>
    send(`${service.url}/flash-sale/checkout`, {
      method: 'POST',
      headers,
      json: { product_id: product, user_id: randomUUID(), qty: 1, idempotency_key: randomUUID(), ...fields },
    });

  test('makes the device fields optional', async () => {
    const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900, require_attestation: false });
    expect((await buy(product, {})).status).toBe(200);
    expect((await buy(product, { device_fp: 'fp-1' })).status).toBe(200);
    expect((await buy(product, {}, { 'x-device-fingerprint': 'fp-2' })).status).toBe(200);
    await expectStock(operator, product, { total: 100, free: 97, held: 3 });
  });

  test('is no licence to send a forged or stale token', async () => {
    const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900, require_attestation: false });
    const now = Math.floor(await redisSeconds(service.redis.client));
    expectProblem(await buy(product, { ...signToken('fp', now), device_fp: 'other' }), 401, 'attestation_invalid');
    expectProblem(await buy(product, signToken('fp', now - 60)), 401, 'attestation_expired');
    await expectStock(operator, product, { total: 100, free: 100 });
  });

  test('does not lift the quota of a device that is named', async () => {
    const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900, require_attestation: false });
    const answers = await withinASecond(() => {
      const device_fp = `fp-${randomUUID()}`;
      return Promise.all(Array.from({ length: 25 }, () => buy(product, { device_fp })));
    });
    expect(countStatuses(answers)).toEqual({ 200: 20, 429: 5 });
  });

  test('is refused by a campaign that requires a token, whatever of it is missing', async () => {
    const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900 });
    const { attestation, expires_at, device_fp } = signToken(
      'fp',
      Math.floor(await redisSeconds(service.redis.client)) + 30,
    );
    const parts = [
      {},
      { device_fp },
      { device_fp, expires_at },
      { attestation, device_fp },
      { attestation, expires_at },
    ];
    for (const fields of parts) expectProblem(await buy(product, fields), 401, 'attestation_invalid');
    expect((await buy(product, { attestation, expires_at, device_fp })).status).toBe(200);
    await expectStock(operator, product, { total: 100, free: 99, held: 1 });
  });
});
