import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem, expectRows } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, send } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive, countStatuses } from '../harness/shoppers.js';

/** Several codes on one order. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const newCode = () => `CODE${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
const newUser = () => `user-${randomUUID()}`;

// One user redeems more often here than the usual limit allows.
const LIMITS = { redeem_per_minute_per_user: 1_000 };

async function open(stacking: object, terms: Record<string, unknown> = {}) {
  const code = newCode();
  const shared = { code, total_limit: 100, hold_seconds: 900, per_user_limit: 9, stacking, limits: LIMITS, ...terms };
  return { code, product: await operator.openCampaign(shared) };
}
const exclusive = () => open({ exclusive: true });
const redeem = (code: string, user: string, order: string, fields: object = {}): Promise<Answer> =>
  send(`${service.url}/coupons/redeem`, {
    method: 'POST',
    json: { code, user_id: user, order_id: order, idempotency_key: randomUUID(), ...fields },
  });

describe('POST /coupons/redeem', () => {
  test('refuses a second exclusive code on the order of a user, whichever comes first, and takes nothing for it', async () => {
    const [one, other, plain] = [await exclusive(), await exclusive(), await open({ exclusive: false })];
    const user = newUser();
    expect((await redeem(one.code, user, 'cart-1')).status).toBe(201);
    expectProblem(await redeem(other.code, user, 'cart-1'), 409, 'not_combinable');
    expectProblem(await redeem(plain.code, user, 'cart-1'), 409, 'not_combinable');
    expect((await redeem(plain.code, user, 'cart-2')).status).toBe(201);
    expectProblem(await redeem(other.code, user, 'cart-2'), 409, 'not_combinable');
    expect((await redeem(plain.code, user, 'cart-2')).status).toBe(201);
    await expectRows(service, other.product, {});
    await expectRows(service, plain.product, { reserved: 2 });
  });

  test('refuses two codes of one group, whatever its name is, and accepts two groups', async () => {
    const group = 'été, 50 % = | группа';
    const [a, again, b] = [
      await open({ exclusive: false, group }),
      await open({ exclusive: false, group }),
      await open({ exclusive: false, group: 'été' }),
    ];
    const user = newUser();
    const answers = [a, b, again].map(
      ({ code }) =>
        () =>
          redeem(code, user, 'cart-1'),
    );
    const statuses: number[] = [];
    for (const answer of answers) statuses.push((await answer()).status);
    expect(statuses).toEqual([201, 201, 409]);
  });

  test('lets one of fifty at one moment have the order', async () => {
    const campaigns = await Promise.all(Array.from({ length: 10 }, exclusive));
    const user = newUser();
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => redeem(String(campaigns[i % 10]?.code), user, 'cart-1')),
    );
    const { 201: taken, 409: refused, 429: limited = 0 } = countStatuses(answers);
    expect([taken, Number(refused) + limited]).toEqual([1, 49]);
  });

  test('does not let another user’s redemption block an order', async () => {
    const { code } = await exclusive();
    const order = `cart-${randomUUID()}`;
    expect((await redeem(code, newUser(), order)).status).toBe(201);
    expect((await redeem(code, newUser(), order)).status).toBe(201);
  });

  test('accepts the other code when the first is released or refunded, and the first no more', async () => {
    const [one, other] = [await exclusive(), await exclusive()];
    const user = newUser();
    const first = await redeem(one.code, user, 'cart-1');
    await payments.release(first.data.reservation_id);
    const second = await redeem(other.code, user, 'cart-1');
    expect(second.status).toBe(201);
    expectProblem(await redeem(one.code, user, 'cart-1'), 409, 'not_combinable');
    await payments.confirm(second.data.reservation_id, 'pay-1');
    expectProblem(await redeem(one.code, user, 'cart-1'), 409, 'not_combinable');
    await payments.refund(second.data.reservation_id);
    expect((await redeem(one.code, user, 'cart-1')).status).toBe(201);
  });

  test('returns the first response to a repeated key, and does not remember the refusal', async () => {
    const [one, other] = [await exclusive(), await exclusive()];
    const user = newUser();
    const key = { idempotency_key: randomUUID() };
    const refusedKey = { idempotency_key: randomUUID() };
    const first = await redeem(one.code, user, 'cart-1', key);
    expectProblem(await redeem(other.code, user, 'cart-1', refusedKey), 409, 'not_combinable');
    expectProblem(await redeem(one.code, user, 'cart-1', key), 409, 'duplicate_request');
    await payments.release(first.data.reservation_id);
    expect((await redeem(other.code, user, 'cart-1', refusedKey)).status).toBe(201);
  });

  test('holds the order for a place in line until the user leaves it', async () => {
    const busy = await open({ exclusive: true }, { total_limit: 1, waiting_room: { enabled: true } });
    const other = await open({ exclusive: false });
    await redeem(busy.code, newUser(), 'cart-0');
    const user = newUser();
    const place = await redeem(busy.code, user, 'cart-1');
    expect(place.status).toBe(202);
    expectProblem(await redeem(other.code, user, 'cart-1'), 409, 'not_combinable');
    await send(`${service.url}/flash-sale/queue`, { method: 'DELETE', headers: { 'x-ticket': place.data.ticket } });
    expect((await redeem(other.code, user, 'cart-1')).status).toBe(201);
  });

  test('says nothing of the order where a campaign says nothing of its codes', async () => {
    const one = await exclusive();
    const quiet = await open({ exclusive: false }, { uniform_refusals: true });
    const user = newUser();
    await redeem(one.code, user, 'cart-1');
    expectProblem(await redeem(quiet.code, user, 'cart-1'), 404, 'code_not_usable');
  });

  test('counts a refusal for nothing against the user', async () => {
    const [one, other] = [await exclusive(), await exclusive()];
    const user = newUser();
    await redeem(one.code, user, 'cart-1');
    for (let i = 0; i < 11; i += 1) expect((await redeem(other.code, user, 'cart-1')).status).toBe(409);
    expect((await redeem(other.code, user, 'cart-2')).status).toBe(201);
  });
});

describe('POST /flash-sale/checkout', () => {
  test('makes an order that an exclusive campaign shares with no code', async () => {
    const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900, stacking: { exclusive: true } });
    const shopper = arrive(service.url, product);
    const { data } = await shopper.checkout();
    const { code } = await open({ exclusive: false });
    expectProblem(await redeem(code, shopper.user, String(data.order_id)), 409, 'not_combinable');
    await payments.release(String(data.reservation_id));
    expect((await redeem(code, shopper.user, String(data.order_id))).status).toBe(201);
  });
});
