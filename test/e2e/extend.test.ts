import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { sharedService, startWorkerProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';
import { untilWhole } from '../harness/verdict.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

async function buy(terms: Record<string, unknown> = {}) {
  const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900, extend_seconds: 120, ...terms });
  const shopper = arrive(service.url, product);
  const { data } = await shopper.checkout();
  return {
    product,
    shopper,
    id: String(data.reservation_id),
    order: String(data.order_id),
    due: String(data.pay_before),
  };
}
const later = (time: string, seconds: number) => new Date(Date.parse(time) + seconds * 1000).toISOString();

test('a service extends the time to pay once, by id or order; the shopper, the row and an event have the new time', async () => {
  const { product, shopper, id, order, due } = await buy();
  const extended = await payments.say('extend', { reservation_id: id });
  expect(extended.data).toEqual({ reservation_id: id, status: 'extended', pay_before: later(due, 120) });
  const again = await payments.say('extend', { order_id: order });
  expectProblem(again, 409, 'already_extended');
  expect(again.body).toMatchObject({ reservation_id: id, pay_before: later(due, 120) });
  const status = await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
  expect(status.data.pay_before).toBe(later(due, 120));
  const row = await until('the row is extended', async () => {
    const { rows } = await service.database.client.query(
      `select r.pay_before, (select array_agg(e.data ->> 'pay_before') from outbox_events e
         where e.subject = r.redemption_id::text and e.type = 'dev.doorbuster.redemption.extended.v1') as events
       from redemptions r where r.redemption_id = $1`,
      [id],
    );
    return rows[0]?.events && rows[0];
  });
  expect([row.pay_before.toISOString(), row.events]).toEqual([later(due, 120), [later(due, 120)]]);
  expect((await payments.confirm(id, 'pay-1')).status).toBe(200);
  await untilWhole(service.env, product);
});

test('nothing is extended that is paid, released or not allowed', async () => {
  const [paid, released, plain] = [await buy(), await buy(), await buy({ extend_seconds: 0 })];
  await payments.confirm(paid.id);
  await payments.release(released.id);
  expectProblem(await payments.say('extend', { reservation_id: paid.id }), 409, 'reservation_redeemed');
  expectProblem(await payments.say('extend', { reservation_id: released.id }), 409, 'reservation_released');
  expectProblem(await payments.say('extend', { reservation_id: plain.id }), 409, 'extension_not_allowed');
  const closed = await buy();
  await operator.call('POST', `/admin/campaigns/${closed.product}/close`);
  expectProblem(await payments.say('extend', { reservation_id: closed.id }), 409, 'extension_not_allowed');
  await operator.call('PATCH', `/admin/campaigns/${plain.product}`, { extend_seconds: 60 });
  expect((await payments.say('extend', { reservation_id: plain.id })).data.pay_before).toBe(later(plain.due, 60));
});

test('a campaign extends by its hold if it says nothing, and by half an hour at most', async () => {
  for (const [hold_seconds, extend_seconds] of [
    [600, 600],
    [7_200, 1_800],
  ] as const) {
    const { product, id, due } = await buy({ hold_seconds, extend_seconds: undefined });
    expect((await operator.call('GET', `/admin/campaigns/${product}`)).data).toMatchObject({ extend_seconds });
    const { data } = await payments.say('extend', { reservation_id: id });
    expect(data.pay_before).toBe(later(due, extend_seconds));
  }
  const long = { product_id: `sale-${randomUUID()}`, total_limit: 1, extend_seconds: 1_801 };
  expectProblem(await operator.call('POST', '/admin/campaigns', long), 400, 'invalid_request');
});

test('a socket hears of the extension, with the new link to pay', async () => {
  const { shopper, id, order, due } = await buy({ checkout_url: 'https://shop.example/pay?until={expires_at}' });
  const socket = await openSocket(service.url, shopper.ticket);
  await socket.frame('welcome');
  await payments.say('extend', { reservation_id: id });
  expect(await socket.frame('extended')).toMatchObject({
    ...{ reservation_id: id, order_id: order, pay_before: later(due, 120) },
    checkout_url: `https://shop.example/pay?until=${encodeURIComponent(later(due, 120))}`,
  });
});

test('Redis that has lost its data knows that a reservation was extended', async () => {
  const { client: redis } = service.redis;
  const written = await buy();
  await until('Postgres has it', async () => (await redis.xlen('db1:journal')) === 0);
  // The worker will write the other one in the same batch as its extension.
  await service.worker.stop();
  const unwritten = await buy();
  const extensions = new Map<string, string>();
  for (const { id } of [written, unwritten])
    extensions.set(id, (await payments.say('extend', { reservation_id: id })).data.pay_before);
  await startWorkerProcess(service.env);
  await until('Postgres has the extensions', async () => (await redis.xlen('db1:journal')) === 0);
  await redis.flushall();
  await until('Redis is refilled', async () => (await operator.stats(unwritten.product)).held === 1);
  for (const [id, pay_before] of extensions)
    expect((await payments.say('extend', { reservation_id: id })).body).toMatchObject({
      ...{ code: 'already_extended', pay_before },
    });
  // Nothing was journalled: a repetition appends no entry.
  expect(JSON.stringify(await redis.xrange('db1:journal', '-', '+'))).not.toContain(unwritten.id);
});
