import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { newReservationPrefix } from '../../shared/domain/ids.js';
import { expectProblem, pointersOf } from '../harness/checks.js';
import { Operator, PaymentService, send, sendOnce } from '../harness/clients.js';
import { erase } from '../harness/erasure.js';
import { sendSigned } from '../harness/payment-providers.js';
import { SERVICE_SECRET, sharedService, startWorkerProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

async function buy(terms: Record<string, unknown> = {}) {
  const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900, ...terms });
  const shopper = arrive(service.url, product);
  const { data } = await shopper.checkout();
  return { product, shopper, id: String(data.reservation_id), order: String(data.order_id) };
}

type OfOrder = { reservation_id: string };
const byId = (a: OfOrder, b: OfOrder) => a.reservation_id.localeCompare(b.reservation_id);

/** A campaign with a code, and its redemption for an order that the shop has named. */
async function redeem(user: string, order_id: string, terms: Record<string, unknown> = {}) {
  const code = `C${randomUUID().replaceAll('-', '').slice(0, 20).toUpperCase()}`;
  const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900, code, per_user_limit: 2, ...terms });
  const again = (key: string) =>
    send(`${service.url}/coupons/redeem`, {
      method: 'POST',
      json: { code, user_id: user, order_id, idempotency_key: key },
    });
  const { data } = await again(randomUUID());
  return { user, product, id: String(data.reservation_id), again };
}

/** Postgres has a number of reservations of an order. */
const untilWritten = (order: string, count: number) =>
  until('Postgres has the reservations', async () => {
    const { rows } = await service.database.client.query('select 1 from redemptions where order_id = $1', [order]);
    return rows.length === count;
  });

test('confirm, release and refund find a reservation by the order id of its checkout', async () => {
  const { id, order, product } = await buy();
  const confirmed = await payments.say('confirm', { order_id: order, payment_ref: 'pay-1' });
  expect(confirmed.data).toEqual({ reservation_id: id, status: 'redeemed', order_id: order });
  expect((await payments.say('confirm', { order_id: order, product_id: product })).data).toEqual(confirmed.data);
  expectProblem(await payments.say('release', { order_id: order }), 409, 'reservation_redeemed');
  for (let i = 0; i < 2; i += 1) {
    const refunded = await payments.say('refund', { order_id: order });
    expect(refunded.data).toMatchObject({ reservation_id: id, status: 'refunded' });
  }
  const other = await buy();
  for (let i = 0; i < 2; i += 1)
    expect((await payments.say('release', { order_id: other.order })).data).toMatchObject({
      reservation_id: other.id,
      released: true,
    });
});

test('a code that is redeemed for the order of a checkout is confirmed, found and refunded with it', async () => {
  const bought = await buy();
  const code = await redeem(bought.shopper.user, bought.order, { per_user_limit: 1 });
  // Another one may not join the order, nor keep it from being paid. It is found by its user.
  const stranger = await redeem(`user-${randomUUID()}`, bought.order);
  const both = [bought.id, code.id].sort();
  const confirmed = await payments.say('confirm', { order_id: bought.order, payment_ref: 'pay-both' });
  const inBoth = (status: string) =>
    both.map((reservation_id) => expect.objectContaining({ reservation_id, status })) as unknown[];
  expect(confirmed.data).toEqual({ order_id: bought.order, reservations: inBoth('redeemed') });
  await untilWritten(bought.order, 3);
  const found = async (query: string) =>
    (await operator.call('GET', `/admin/redemptions?${query}`)).data as unknown as { redemption_id: string }[];
  const ofUser = await found(`order_id=${bought.order}&user_id=${bought.shopper.user}`);
  expect(ofUser.map(({ redemption_id }) => redemption_id).sort()).toEqual(both);
  expect(await found(`order_id=${bought.order}`)).toHaveLength(3);
  expect((await payments.say('confirm', { order_id: bought.order, product_id: code.product })).data).toMatchObject({
    reservation_id: code.id,
    status: 'redeemed',
  });
  expectProblem(await code.again(randomUUID()), 409, 'already_redeemed');
  const ofStranger = await payments.say('confirm', { order_id: bought.order, user_id: stranger.user });
  expect(ofStranger.data).toMatchObject({ reservation_id: stranger.id, status: 'redeemed' });
  const refunded = await payments.say('refund', { order_id: bought.order });
  expect(refunded.data).toEqual({ order_id: bought.order, reservations: inBoth('refunded') });
});

test('an order is refunded as a whole after its user was erased', async () => {
  const bought = await buy();
  const code = await redeem(bought.shopper.user, bought.order);
  await payments.say('confirm', { order_id: bought.order });
  await erase(operator, bought.shopper.user);
  const { data } = await payments.say('refund', { order_id: bought.order });
  const ids = (data.reservations as { reservation_id: string }[]).map(({ reservation_id }) => reservation_id);
  expect(ids.sort()).toEqual([bought.id, code.id].sort());
});

test('order ids of a shop that look like those made here find their reservations', async () => {
  for (const order of [
    `ord_${randomUUID().replaceAll('-', '')}`,
    `ord_${randomUUID().replaceAll('-', '').slice(4)}ABCD`,
    `ord_${newReservationPrefix().replaceAll('-', '')}00000001`,
  ]) {
    const { id } = await redeem(`user-${randomUUID()}`, order);
    const confirmed = await payments.say('confirm', { order_id: order });
    expect([order, confirmed.data]).toEqual([order, { reservation_id: id, status: 'redeemed', order_id: order }]);
    const { data } = await operator.call('GET', `/admin/redemptions?order_id=${order}`);
    expect(data).toMatchObject([{ redemption_id: id, order_id: order }]);
  }
});

test('an order id of the shop finds its reservations, each of which is decided', async () => {
  const [user, order] = [`user-${randomUUID()}`, `cart-${randomUUID()}`];
  const first = await redeem(user, order);
  expect((await payments.say('confirm', { order_id: order })).data.reservation_id).toBe(first.id);
  const second = await redeem(user, order);
  await untilWritten(order, 2);
  const both = [first.id, second.id].sort();
  const partly = await payments.say('refund', { order_id: order });
  expectProblem(partly, 409, 'order_partly_decided');
  expect(partly.body.reservations).toEqual(
    both.map((reservation_id) => ({ reservation_id, status: reservation_id === first.id ? 'refunded' : 'reserved' })),
  );
  const again = await redeem(user, order);
  await untilWritten(order, 3);
  await payments.say('confirm', { order_id: order, product_id: second.product });
  await payments.say('confirm', { order_id: order, product_id: again.product });
  for (let i = 0; i < 2; i += 1) {
    const { status, data } = await payments.say('refund', { order_id: order });
    expect([status, data.order_id, data.reservations.length]).toEqual([200, order, 3]);
    expect(data.reservations.every((one: { status: string }) => one.status === 'refunded')).toBe(true);
  }
  expectProblem(await payments.say('confirm', { order_id: order }), 409, 'reservation_refunded');
});

test('an order of which some have ended is decided in part, and says which', async () => {
  const [user, order] = [`user-${randomUUID()}`, `cart-${randomUUID()}`];
  const kept = await redeem(user, order);
  const short = await redeem(user, order, { hold_seconds: 1 });
  const given = await redeem(user, order);
  await payments.release(given.id);
  await until('Postgres has the end of both', async () => {
    const { rows } = await service.database.client.query(
      `select array_agg(status order by status) as states from redemptions where order_id = $1`,
      [order],
    );
    return String(rows[0].states) === 'expired,released,reserved';
  });
  for (let i = 0; i < 2; i += 1) {
    const confirmed = await payments.say('confirm', { order_id: order, payment_ref: 'pay-1' });
    expectProblem(confirmed, 409, 'order_partly_decided');
    expect(confirmed.body.reservations.sort(byId)).toEqual(
      [
        { reservation_id: kept.id, status: 'redeemed' },
        { reservation_id: short.id, status: 'expired' },
        { reservation_id: given.id, status: 'released' },
      ].sort(byId),
    );
  }
  expect((await payments.say('refund', { order_id: order })).data).toMatchObject({ reservation_id: kept.id });
});

test('an order of several users needs the user, and `keep` needs one reservation', async () => {
  const [ann, ben, order] = [`ann-${randomUUID()}`, `ben-${randomUUID()}`, `cart-${randomUUID()}`];
  const [one, other] = [await redeem(ann, order), await redeem(ben, order)];
  await untilWritten(order, 2);
  const ambiguous = await payments.say('confirm', { order_id: order });
  expectProblem(ambiguous, 409, 'order_ambiguous');
  expect(ambiguous.body.reservations).toEqual([
    { reservation_id: other.id, product_id: other.product, user_id: ben },
    { reservation_id: one.id, product_id: one.product, user_id: ann },
  ]);
  const confirmed = await payments.say('confirm', { order_id: order, user_id: ann });
  expect(confirmed.data).toMatchObject({ reservation_id: one.id, status: 'redeemed' });
  await redeem(ben, order);
  await untilWritten(order, 3);
  expectProblem(await payments.say('release', { order_id: order, user_id: ben, keep: 1 }), 409, 'order_ambiguous');
  const release = () => payments.say('release', { order_id: order, user_id: ben });
  const released = await release();
  expect(released.data.reservations).toHaveLength(2);
  expect((await release()).text).toBe(released.text);
});

test('a reservation that was released does not hide a later one of the same order', async () => {
  const [user, order] = [`user-${randomUUID()}`, `cart-${randomUUID()}`];
  const { id, again } = await redeem(user, order);
  await payments.release(id);
  await until('Postgres has the release', async () => {
    const { rows } = await service.database.client.query('select status from redemptions where redemption_id = $1', [
      id,
    ]);
    return rows[0]?.status === 'released';
  });
  expect((await payments.say('release', { order_id: order })).data).toMatchObject({ reservation_id: id });
  const next = (await again(randomUUID())).data;
  expect((await payments.say('confirm', { order_id: order })).data).toMatchObject({
    reservation_id: next.reservation_id,
  });
});

const statusIs = (id: string, status: string) =>
  until(`it is ${status}`, async () => {
    const { rows } = await service.database.client.query('select status from redemptions where redemption_id = $1', [
      id,
    ]);
    return rows[0]?.status === status;
  });
const paid = async (order_id: string) =>
  (await sendSigned(service.url, 'payment.succeeded', { order_id, payment_ref: `pay-${order_id}` })).data.outcome;

test('a code whose hold ran out stays on the order, whatever else was tried for it', async () => {
  const bought = await buy();
  const exclusive = { stacking: { exclusive: true } };
  const short = await redeem(bought.shopper.user, bought.order, { ...exclusive, hold_seconds: 1 });
  await statusIs(short.id, 'expired');
  const code = `C${randomUUID().replaceAll('-', '').slice(0, 20).toUpperCase()}`;
  await operator.openCampaign({ ...exclusive, code, total_limit: 0 });
  const json = { code, user_id: bought.shopper.user, order_id: bought.order, idempotency_key: randomUUID() };
  expectProblem(await send(`${service.url}/coupons/redeem`, { method: 'POST', json }), 410, 'sold_out');
  expect(await paid(bought.order)).toBe('partial');
  expectProblem(await payments.say('confirm', { order_id: bought.order }), 409, 'order_partly_decided');
});

test('the order of a checkout is not decided for another user', async () => {
  const { order, id, shopper } = await buy();
  const stranger = `user-${randomUUID()}`;
  for (const call of ['confirm', 'release', 'extend', 'refund'] as const)
    expectProblem(await payments.say(call, { order_id: order, user_id: stranger }), 404, 'reservation_not_found');
  const event = { order_id: order, user_id: stranger, payment_ref: 'pay-of-another' };
  expect((await sendSigned(service.url, 'payment.succeeded', event)).status).toBe(202);
  const { data } = await payments.say('confirm', { order_id: order, user_id: shopper.user });
  expect(data).toMatchObject({ reservation_id: id, status: 'redeemed' });
});

test('nothing is done while Postgres is behind that is refused afterwards', async () => {
  const parts = await buy({ max_qty: 3 });
  await redeem(parts.shopper.user, parts.order);
  const given = await buy({ late_payment: 'reacquire' });
  const code = await redeem(given.shopper.user, given.order);
  await payments.release(given.id);
  await statusIs(given.id, 'released');
  await statusIs(code.id, 'reserved');
  const sql = service.database.client;
  const ask = (call: string, json: unknown) => {
    const headers = { authorization: `Bearer ${SERVICE_SECRET}` };
    return sendOnce(`${service.url}/flash-sale/${call}`, { method: 'POST', headers, json });
  };
  await sql.query('begin');
  await sql.query('select * from journal_cursor for update');
  await buy();
  const keep = { order_id: parts.order, keep: 1 };
  for (const answer of [await ask('release', keep), await ask('confirm', { order_id: given.order })])
    expectProblem(answer, 503, 'temporarily_unavailable');
  await sql.query('rollback');
  expectProblem(await payments.say('release', keep), 409, 'order_ambiguous');
  const again = await payments.say('confirm', { order_id: given.order });
  expectProblem(again, 409, 'order_partly_decided');
  expect(again.body.reservations).toContainEqual({ reservation_id: given.id, status: 'released' });
});

test('orders are decided and payments refunded in a Redis that was refilled and has promised nothing since', async () => {
  const [user, order] = [`user-${randomUUID()}`, `cart-${randomUUID()}`];
  const { id } = await redeem(user, order);
  const short = await buy();
  const code = await redeem(short.shopper.user, short.order, { hold_seconds: 1 });
  const bought = await buy();
  expect(await paid(bought.order)).toBe('confirmed');
  for (const [one, status] of [
    [id, 'reserved'],
    [code.id, 'expired'],
    [bought.id, 'redeemed'],
  ] as const)
    await statusIs(one, status);
  await service.redis.client.flushall();
  await until('it is refilled', async () => {
    const { status } = await payments.say('extend', { order_id: 'cart-of-nobody' });
    return status === 404;
  });
  const refund = { order_id: bought.order, payment_ref: `pay-${bought.order}` };
  // An unknown order is looked up in Postgres alone, so Redis may still be away.
  const refunded = async () => (await sendSigned(service.url, 'payment.refunded', refund)).data.outcome;
  expect(await until('the refund has an outcome', refunded)).toBe('refunded');
  expect((await payments.say('confirm', { order_id: order })).data.reservation_id).toBe(id);
  expect(await paid(short.order)).toBe('partial');
});

test('a generated order names its reservation, which Postgres may lack; other orders wait for a worker', async () => {
  await service.worker.stop();
  const { id, order } = await buy();
  const confirmed = await payments.say('confirm', { order_id: order });
  expect([confirmed.status, confirmed.data.reservation_id]).toEqual([200, id]);
  expectProblem(await payments.say('confirm', { order_id: 'cart-7' }), 503, 'temporarily_unavailable');
  await startWorkerProcess(service.env);
  await until('a worker has written everything', async () => {
    const { status } = await payments.say('confirm', { order_id: 'cart-7' });
    return status === 404;
  });
});

test('a wrong name is refused: unknown orders, both names, none, and an order with a ticket', async () => {
  const { id, order, shopper } = await buy();
  for (const order_id of [order.replace(/.{4}$/, '0000'), 'cart-of-nobody', 'ord_x'])
    expectProblem(await payments.say('confirm', { order_id }), 404, 'reservation_not_found');
  expectProblem(
    await payments.say('confirm', { order_id: order, product_id: 'another' }),
    404,
    'reservation_not_found',
  );
  const wrong = [
    [{}, '#/reservation_id'],
    [{ product_id: 'sale' }, '#/reservation_id'],
    [{ reservation_id: id, order_id: order }, '#/order_id'],
  ] as const;
  for (const [body, pointer] of wrong) {
    const refused = await payments.say('confirm', body);
    expectProblem(refused, 400, 'invalid_request');
    expect(pointersOf(refused)).toEqual([pointer]);
  }
  const headers = { 'x-ticket': String(shopper.ticket) };
  const byTicket = await send(`${service.url}/flash-sale/release`, {
    method: 'POST',
    headers,
    json: { order_id: order },
  });
  expectProblem(byTicket, 400, 'invalid_request');
});
