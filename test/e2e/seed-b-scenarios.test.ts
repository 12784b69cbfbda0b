import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { expireNow } from '../harness/campaign.js';
import { expectInPostgres, expectProblem, expectRows, expectStock, withoutAdvice } from '../harness/checks.js';
import { Operator, PaymentService, Shopper } from '../harness/clients.js';
import { sendWithoutReading } from '../harness/raw-http.js';
import { ON_CLUSTER } from '../harness/redis-mode.js';
import { ATTESTATION_KEY, sharedService } from '../harness/service.js';
import {
  arrive,
  checkoutAtOnce,
  checkoutInTurn,
  countStatuses,
  gatherShoppers,
  range,
  theOne,
  withinASecond,
} from '../harness/shoppers.js';
import { redisSeconds, signToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

// The eleven scenarios of seed B, in its order. The other files of this folder test each of them in depth.

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

test('1. Budi buys Indomie: token, checkout, reservation, payment', async () => {
  const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900, waiting_room: { enabled: true } });
  const budi = new Shopper(service.url, product, 'budi', 'fp-iphone-budi');
  await budi.getToken();
  const before = await redisSeconds(service.redis.client);
  const bought = await budi.checkout();
  const after = await redisSeconds(service.redis.client);

  expect(bought.status).toBe(200);
  expect(bought.body).toEqual({
    data: {
      status: 'completed',
      order_id: expect.stringMatching(/^[A-Za-z0-9._:@-]{1,128}$/),
      reservation_id: expect.stringMatching(UUID),
      pay_before: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/),
      ticket: expect.stringMatching(/./),
      durability: ON_CLUSTER ? 'replicated' : 'journaled',
    },
  });
  const heldSince = Date.parse(String(bought.data.pay_before)) / 1000 - 900;
  expect(heldSince).toBeGreaterThanOrEqual(before - 0.001);
  expect(heldSince).toBeLessThanOrEqual(after);
  await expectStock(operator, product, { total: 100, free: 99, held: 1 });
  await expectRows(service, product, { reserved: 1 });

  const paid = await payments.confirm(bought.data.reservation_id, 'pay-1');
  expect(paid.body).toEqual({
    data: { reservation_id: bought.data.reservation_id, status: 'redeemed', order_id: bought.data.order_id },
  });
  await expectStock(operator, product, { total: 100, free: 99, redeemed: 1 });
  await expectRows(service, product, { redeemed: 1 });
});

test('2. double-tap panic: the second tap with the same key gets 409 and the first answer', async () => {
  const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900 });
  const shopper = arrive(service.url, product);
  const key = randomUUID();
  const taps = await Promise.all([1, 2].map(() => shopper.checkout({ idempotency_key: key })));

  expect(countStatuses(taps)).toEqual({ 200: 1, 409: 1 });
  const second = theOne(taps, 409);
  expectProblem(second, 409, 'duplicate_request');
  expect(second.body).toMatchObject({ original_status: 200, data: theOne(taps, 200).data });
  await expectStock(operator, product, { total: 10, free: 9, held: 1 });
  await expectRows(service, product, { reserved: 1 });
});

test('3. 200 users, 100 units: exactly 100 buy', async () => {
  const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900 });
  const answers = await checkoutAtOnce(gatherShoppers(service.url, product, 200));

  expect(countStatuses(answers)).toEqual({ 200: 100, 410: 100 });
  for (const refused of answers.filter(({ status }) => status === 410)) expectProblem(refused, 410, 'sold_out');
  await expectStock(operator, product, { total: 100, held: 100 });
  await expectInPostgres(
    service,
    answers.filter(({ status }) => status === 200).map(({ data }) => data.reservation_id),
  );
});

test('4. a bot with a forged token gets 401, and 30 calls of one device get 20 answers and ten times 429', async () => {
  const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900, per_user_limit: 100 });
  const bot = new Shopper(service.url, product, 'bot', 'fp-bot');
  bot.token = { ...signToken('fp-bot', Math.floor(Date.now() / 1000) + 30), attestation: `a1.${'A'.repeat(43)}` };
  const forged = await checkoutAtOnce(Array.from({ length: 30 }, () => bot));
  for (const answer of forged) expectProblem(answer, 401, 'attestation_invalid');
  await expectStock(operator, product, { total: 100, free: 100 });

  let attacked = product;
  const spam = await withinASecond(async () => {
    attacked = await operator.openCampaign({ total_limit: 100, hold_seconds: 900, per_user_limit: 100 });
    const spammer = new Shopper(service.url, attacked);
    await spammer.getToken();
    return checkoutAtOnce(Array.from({ length: 30 }, () => spammer));
  });
  expect(countStatuses(spam)).toEqual({ 200: 20, 429: 10 });
  await expectStock(operator, attacked, { total: 100, free: 80, held: 20 });
});

test('5. user 101 finds no stock and is first in line', async () => {
  const product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900, waiting_room: { enabled: true } });
  expect(countStatuses(await checkoutAtOnce(gatherShoppers(service.url, product, 100)))).toEqual({ 200: 100 });

  const late = arrive(service.url, product);
  const queued = await late.checkout();
  expect(queued.status).toBe(202);
  expect(withoutAdvice(queued.data)).toEqual({
    status: 'queued',
    position: 1,
    queue_size: 1,
    ticket: expect.stringMatching(/./),
  });
  expect(queued.headers.get('location')).toBe(`/flash-sale/queue-status?product_id=${product}&user_id=${late.user}`);
  expect(queued.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  expect((await late.queueStatus()).data).toMatchObject({ status: 'queued', position: 1, queue_size: 1 });
});

test('6. payment timeout: the unit returns, by a release or by its expiry, and goes to the waiting user', async () => {
  const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900, waiting_room: { enabled: true } });
  const released = await arrive(service.url, product).checkout();
  const expiring = arrive(service.url, product);
  const forgotten = await expiring.checkout();
  const first = arrive(service.url, product);
  const second = arrive(service.url, product);
  expect(countStatuses(await checkoutInTurn([first, second]))).toEqual({ 202: 2 });

  const given = await payments.release(released.data.reservation_id, 'payment timed out');
  expect(given.body).toEqual({
    data: { reservation_id: released.data.reservation_id, released: true, status: 'released' },
  });
  expect((await first.queueStatus()).data.status).toBe('promoted');
  await expireNow(service.redis.client, product, String(forgotten.data.reservation_id));
  await until('the second waiting shopper has the unit that ran out', async () => {
    return (await second.queueStatus()).data.status === 'promoted';
  });
  expect((await expiring.queueStatus()).data.status).toBe('expired');
  await expectStock(operator, product, { total: 2, held: 2 });
  await expectRows(service, product, { expired: 1, released: 1, reserved: 2 });
});

test('7. a token is refused 31 s after its expiry and tolerated within 30 s of it', async () => {
  const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900 });
  const late = arrive(service.url, product);
  const tolerated = arrive(service.url, product);
  const now = Math.floor(await redisSeconds(service.redis.client));
  expectProblem(await late.checkout({ ...signToken(late.device, now - 31) }), 401, 'attestation_expired');
  expect((await tolerated.checkout({ ...signToken(tolerated.device, now - 25) })).status).toBe(200);
  await expectStock(operator, product, { total: 10, free: 9, held: 1 });
});

test('8. GET /token: the server signs, and the secret is in nothing it says', async () => {
  const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900 });
  const shopper = new Shopper(service.url, product);
  const before = Math.floor(await redisSeconds(service.redis.client));
  const token = await shopper.getToken();
  const after = Math.floor(await redisSeconds(service.redis.client));

  // The API estimates the clock of Redis and may be behind it at the border of a second.
  expect(range(before + 29, after + 30)).toContain(token.expires_at);
  // Only who has the key can make the same one.
  expect(token).toEqual(signToken(shopper.device, token.expires_at));
  for (const form of ['base64', 'base64url', 'hex', 'latin1'] as const) {
    expect(JSON.stringify(token)).not.toContain(ATTESTATION_KEY.toString(form).slice(0, 16));
  }
  expect((await shopper.checkout()).status).toBe(200);
});

test('9. 25 requests of one device: 20 admitted, 5 refused', async () => {
  let product = '';
  const answers = await withinASecond(async () => {
    product = await operator.openCampaign({ total_limit: 100, hold_seconds: 900 });
    const device = new Shopper(service.url, product);
    const token = await device.getToken();
    const users = Array.from(
      { length: 25 },
      (_, i) => new Shopper(service.url, product, `shared-phone-${i}`, device.device),
    );
    for (const user of users) user.token = token;
    return checkoutAtOnce(users);
  });
  expect(countStatuses(answers)).toEqual({ 200: 20, 429: 5 });
  await expectStock(operator, product, { total: 100, free: 80, held: 20 });
});

test('10. mobile 4G to WiFi: the answer is lost with the network, the retry gets it', async () => {
  const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900 });
  const shopper = arrive(service.url, product);
  const key = randomUUID();
  const body = { product_id: product, user_id: shopper.user, qty: 1, ...shopper.token, idempotency_key: key };
  const hangUp = await sendWithoutReading(service.url, '/flash-sale/checkout', body);
  await until('the server has taken the unit', async () => (await operator.stats(product)).held === 1);
  hangUp();

  const retry = await shopper.checkout({ idempotency_key: key });
  expectProblem(retry, 409, 'duplicate_request');
  expect(retry.body).toMatchObject({ original_status: 200, data: { status: 'completed' } });
  await expectInPostgres(service, [retry.data.reservation_id]);
  await expectStock(operator, product, { total: 10, free: 9, held: 1 });
});

test('11. two devices with different fingerprints both get the last two units', async () => {
  const product = await operator.openCampaign({ total_limit: 2, hold_seconds: 900 });
  const answers = await checkoutAtOnce([
    new Shopper(service.url, product, 'user-a', 'fp-iphone'),
    new Shopper(service.url, product, 'user-b', 'fp-android'),
  ]);
  expect(countStatuses(answers)).toEqual({ 200: 2 });
  expect(new Set(answers.map(({ data }) => data.order_id)).size).toBe(2);
  await expectStock(operator, product, { total: 2, held: 2 });
});
