import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, type Shopper, send } from '../harness/clients.js';
import { SERVICE_SECRET, sharedService, startWorkerProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { untilWhole } from '../harness/verdict.js';

/** A reservation gives back a part of its units and keeps the others. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

const TERMS = { max_qty: 4, hold_seconds: 900, waiting_room: { enabled: true } };
type Bought = { product: string; shopper: Shopper; id: string };
async function buy(terms: Record<string, unknown> = {}, qty = 3): Promise<Bought> {
  const product = await operator.openCampaign({ total_limit: 3, ...TERMS, ...terms });
  const shopper = arrive(service.url, product);
  const { status, data } = await shopper.checkout({ qty });
  expect(status).toBe(200);
  return { product, shopper, id: String(data.reservation_id) };
}
const byTicket = ({ id, shopper }: Bought, keep: unknown, ticket = shopper.ticket): Promise<Answer> =>
  send(`${service.url}/flash-sale/release`, {
    method: 'POST',
    headers: { 'x-ticket': String(ticket) },
    json: { reservation_id: id, keep },
  });
const release = (id: string, keep: unknown) => payments.say('release', { reservation_id: id, keep });
const refund = (id: string, keep: unknown) => payments.say('refund', { reservation_id: id, keep });
const read = (id: string) =>
  send(`${service.url}/flash-sale/reservations/${id}`, { headers: { authorization: `Bearer ${SERVICE_SECRET}` } });
const statusOf = async (shopper: Shopper) =>
  (await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) })).data.status;
const written = (id: string) => until('Postgres has it', async () => (await read(id)).data.written === true);
const eventsOf = async (id: string): Promise<string[]> => {
  const sql = `select type, data ->> 'qty' as qty from outbox_events where subject = $1 order by seq`;
  const { rows } = await service.database.client.query(sql, [id]);
  return rows.map(({ type, qty }) => `${String(type).split('.').at(-2)} ${qty}`);
};
async function expectWhole(product: string): Promise<void> {
  await untilWhole(service.env, product);
}

test('the holder and a service give back units, which go to the line; a repetition gives back none', async () => {
  const bought = await buy();
  const { product, id } = bought;
  const [next, last] = [arrive(service.url, product), arrive(service.url, product)];
  for (const shopper of [next, last]) expect((await shopper.checkout()).status).toBe(202);
  const first = { reservation_id: id, released: false, status: 'reserved', qty: 2, released_qty: 1 };
  for (const keep of [2, 2, 3]) expect((await byTicket(bought, keep)).data).toEqual(first);
  expect([await statusOf(next), await statusOf(last)]).toEqual(['promoted', 'queued']);
  expect((await release(id, 1)).data).toEqual({ ...first, qty: 1, released_qty: 2 });
  expect(await statusOf(last)).toBe('promoted');
  expect(await statusOf(bought.shopper)).toBe('completed');
  expect((await read(id)).data).toMatchObject({ status: 'reserved', qty: 1, released_qty: 2, refunded_qty: 0 });
  await written(id);
  expect((await read(id)).data.reduced_at).toEqual(expect.any(String));
  expect((await payments.confirm(id, 'pay-1')).data).toMatchObject({ status: 'redeemed', qty: 1 });
  expect(await operator.stats(product)).toMatchObject({ total: 3, free: 0, held: 2, redeemed: 1 });
  await expectWhole(product);
  const { rows } = await service.database.client.query(
    `select data ->> 'qty' as qty, data ->> 'previous_qty' as before, data ->> 'refunded' as refunded from outbox_events
     where subject = $1 and type = 'dev.doorbuster.redemption.reduced.v1' order by seq`,
    [id],
  );
  expect(rows).toEqual([
    { qty: '2', before: '3', refunded: 'false' },
    { qty: '1', before: '2', refunded: 'false' },
  ]);
});

test('a part is refunded, to the line or burned, and a second payment has the units that are left', async () => {
  const { product, id } = await buy({ total_limit: 4 });
  const [holder, next] = [arrive(service.url, product), arrive(service.url, product)];
  // While a unit is held, the line stays open.
  expect((await holder.checkout()).status).toBe(200);
  expect((await next.checkout()).status).toBe(202);
  const paid = await payments.confirm(id, 'pay-1');
  expect(paid.data).not.toHaveProperty('qty');
  const first = { reservation_id: id, status: 'redeemed', returned_to_stock: true, qty: 2, refunded_qty: 1 };
  for (const keep of [2, 2, 4]) expect((await refund(id, keep)).data).toEqual(first);
  expect(await statusOf(next)).toBe('promoted');
  expect((await payments.confirm(id, 'pay-2')).data).toEqual({ ...paid.data, already_paid_by: 'pay-1', qty: 2 });
  await operator.call('PATCH', `/admin/campaigns/${product}`, { refund_policy: 'burn' });
  expect((await refund(id, 1)).data).toEqual({ ...first, returned_to_stock: false, qty: 1, refunded_qty: 2 });
  expect(await operator.stats(product)).toMatchObject({ free: 0, held: 2, redeemed: 1, burned: 1 });
  await expectWhole(product);
  expect((await read(id)).data).toMatchObject({ qty: 1, released_qty: 0, refunded_qty: 2, burned_qty: 1 });
  const { minutes } = (await operator.call('GET', `/admin/campaigns/${product}/history`)).data;
  const paidUnits = minutes.reduce((sum: number, { paid_units }: { paid_units: number }) => sum + paid_units, 0);
  expect(paidUnits).toBe(3);
  expect((await refund(id, 0)).data).toEqual({ reservation_id: id, status: 'refunded', returned_to_stock: false });
  expect(await operator.stats(product)).toMatchObject({ free: 0, held: 2, redeemed: 0, burned: 2 });
  await expectWhole(product);
});

test('without keep, or with 0, the whole reservation ends as before', async () => {
  const [one, two] = [await buy(), await buy({ hold_seconds: 0 })];
  const released = { reservation_id: one.id, released: true, status: 'released' };
  for (const keep of [0, undefined]) expect((await release(one.id, keep)).data).toEqual(released);
  const refunded = { reservation_id: two.id, status: 'refunded', returned_to_stock: true };
  for (const keep of [undefined, 0]) expect((await refund(two.id, keep)).data).toEqual(refunded);
  expect((await read(one.id)).data).not.toHaveProperty('released_qty');
});

test('nothing is given back that has ended, is not paid, belongs to another user or is no number of units', async () => {
  const [held, ended, paid, gone] = [await buy(), await buy(), await buy(), await buy()];
  await payments.release(ended.id);
  await payments.confirm(paid.id);
  await payments.confirm(gone.id);
  await payments.refund(gone.id);
  expectProblem(await release(ended.id, 1), 409, 'reservation_released');
  expectProblem(await byTicket(ended, 1), 409, 'reservation_released');
  expectProblem(await release(paid.id, 1), 409, 'reservation_redeemed');
  expectProblem(await release(gone.id, 1), 409, 'reservation_refunded');
  expectProblem(await refund(gone.id, 1), 409, 'reservation_refunded');
  expectProblem(await refund(held.id, 1), 409, 'reservation_not_redeemed');
  expectProblem(await byTicket(held, 1, ended.shopper.ticket), 403, 'forbidden');
  expectProblem(await byTicket(paid, 1), 409, 'reservation_redeemed');
  for (const keep of [-1, 1.5, '2', null, 1_000_001]) {
    expectProblem(await release(held.id, keep), 400, 'invalid_request');
    expectProblem(await byTicket(held, keep), 400, 'invalid_request');
    expectProblem(await refund(paid.id, keep), 400, 'invalid_request');
  }
  for (const { product } of [held, paid]) {
    expect(await operator.stats(product)).toMatchObject({ free: 0 });
    await expectWhole(product);
  }
});

test('with confirmation durable, a response follows its commit; a place in line gets the code of the pool', async () => {
  const pool = { type: 'pool', total_limit: 3, confirmation: 'durable', require_attestation: false };
  const product = await operator.openCampaign({ ...TERMS, ...pool });
  const job = await operator.call('POST', `/admin/campaigns/${product}/codes`, { count: 3 });
  const path = String(job.headers.get('location'));
  await until('the codes are there', async () => (await operator.call('GET', path)).data.status === 'done');
  const [ann, bob] = [arrive(service.url, product), arrive(service.url, product)];
  const id = String((await ann.checkout({ qty: 3 })).data.reservation_id);
  expect((await bob.checkout()).status).toBe(202);
  expect((await release(id, 2)).data).toMatchObject({ qty: 2 });
  const sql = 'select qty, released_qty, code_no from redemptions where redemption_id = $1';
  const { rows } = await service.database.client.query(sql, [id]);
  expect(rows).toEqual([{ qty: 2, released_qty: 1, code_no: 1 }]);
  expect(await statusOf(bob)).toBe('promoted');
  await payments.confirm(id);
  expect((await refund(id, 1)).data).toMatchObject({ qty: 1, refunded_qty: 1 });
  expect((await service.database.client.query(sql, [id])).rows).toMatchObject([{ qty: 1, code_no: 1 }]);
  await expectWhole(product);
});

test('two parts, a payment and a whole release at the same moment: every response fits the end, and no unit is lost', async () => {
  for (let round = 0; round < 8; round += 1) {
    const { product, id } = await buy({ total_limit: 4 }, 4);
    const others = [arrive(service.url, product), arrive(service.url, product)];
    for (const one of others) await one.checkout();
    const [three, two, paid, whole] = await Promise.all([
      release(id, 3),
      release(id, 2),
      payments.confirm(id),
      payments.release(id),
    ]);
    const { status, qty } = (await read(id)).data;
    expect(status).toBe(paid.status === 200 ? 'redeemed' : 'released');
    expect(whole.status).toBe(paid.status === 200 ? 409 : 200);
    for (const part of [three, two]) {
      if (part.status === 409) expect(part.body.code).toMatch(/^reservation_(redeemed|released)$/);
      else expect(part.data.qty).toBeGreaterThanOrEqual(qty);
    }
    const { total, free, held, redeemed } = await operator.stats(product);
    expect(free + held + redeemed).toBe(total);
    expect(redeemed).toBe(status === 'redeemed' ? qty : 0);
    await expectWhole(product);
  }
});

test('an operator gives back units for a user; the audit log and the timeline of the user have it', async () => {
  const { product, shopper, id } = await buy();
  const path = `/admin/reservations/${id}`;
  const released = await operator.call('POST', `${path}/release`, { keep: 2, reason: 'asked for two' });
  expect(released.data).toEqual({ reservation_id: id, status: 'reserved', qty: 2, released_qty: 1 });
  await payments.confirm(id);
  const refunded = await operator.call('POST', `${path}/refund`, { keep: 1 });
  const now = { reservation_id: id, status: 'redeemed', returned_to_stock: true, qty: 1, refunded_qty: 1 };
  expect(refunded.data).toEqual(now);
  expectProblem(await operator.call('POST', `${path}/release`, { keep: 1 }), 409, 'reservation_redeemed');
  expectProblem(await operator.call('POST', `${path}/refund`, { keep: -1 }), 400, 'invalid_request');
  await written(id);
  const { data } = await operator.call('GET', `/admin/users/${shopper.user}/timeline`);
  expect(data.redemptions).toMatchObject([{ qty: 1, released_qty: 1, refunded_qty: 1, burned_qty: 0 }]);
  expect(data.timeline).toContainEqual(expect.objectContaining({ kind: 'reduced', detail: '1 released, 1 refunded' }));
  const { rows } = await service.database.client.query(
    `select action, after ->> 'keep' as keep from audit_log where after ->> 'reservation_id' = $1 order by audit_id`,
    [id],
  );
  expect(rows).toEqual([
    { action: 'reservation.release', keep: '2' },
    { action: 'reservation.refund', keep: '1' },
  ]);
  expect((await operator.call('POST', `${path}/refund`, {})).data).toMatchObject({ status: 'refunded' });
  expectProblem(await operator.call('POST', `${path}/refund`, { keep: 1 }), 409, 'reservation_refunded');
  await expectWhole(product);
  const page = await operator.call('GET', `/admin/campaigns/${product}/redemptions`);
  expect(page.data).toMatchObject([{ qty: 1, released_qty: 1, refunded_qty: 1, burned_qty: 0 }]);
});

test('events have the quantity of their time, also when one batch writes them', async () => {
  await service.worker.stop();
  const { product, id } = await buy({ total_limit: 6, max_qty: 6, extend_seconds: 60 }, 6);
  await release(id, 5);
  expect((await payments.say('extend', { reservation_id: id })).status).toBe(200);
  await release(id, 4);
  await payments.confirm(id, 'pay-1');
  await refund(id, 3);
  await payments.confirm(id, 'pay-2');
  await refund(id, 2);
  await startWorkerProcess(service.env);
  await expectWhole(product);
  const expected = ['reserved 6', 'reduced 5', 'extended 5', 'reduced 4', 'redeemed 4'];
  expected.push('reduced 3', 'duplicated 3', 'reduced 2');
  expect(await eventsOf(id)).toEqual(expected);
  await payments.confirm(id, 'pay-3');
  await expectWhole(product);
  await refund(id, 1);
  await expectWhole(product);
  expect(await eventsOf(id)).toEqual([...expected, 'duplicated 2', 'reduced 1']);
});

test('the link of a replay is that of the first response, and queue-status has the quantity that is left', async () => {
  const checkout_url = 'https://shop.example/pay?r={reservation_id}&qty={qty}&sig={signature}';
  const product = await operator.openCampaign({ total_limit: 3, ...TERMS, checkout_url });
  const shopper = arrive(service.url, product);
  const id = String((await shopper.checkoutWithHeader('replay-after-part', { qty: 3 })).data.reservation_id);
  const before = await shopper.checkoutWithHeader('replay-after-part', { qty: 3 });
  expect(before.data.checkout_url).toContain('qty=3&');
  await release(id, 1);
  const again = await shopper.checkoutWithHeader('replay-after-part', { qty: 3 });
  expect(again.headers.get('idempotent-replayed')).toBe('true');
  expect(again.text).toBe(before.text);
  const status = await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
  expect(status.data.checkout_url).toContain('qty=1&');
});
