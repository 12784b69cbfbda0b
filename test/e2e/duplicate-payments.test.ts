import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

async function buy(terms: Record<string, unknown> = {}) {
  const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 900, ...terms });
  const { data } = await arrive(service.url, product).checkout();
  return { product, id: String(data.reservation_id), order: String(data.order_id) };
}
const counted = async () =>
  Number(/^doorbuster_duplicate_payments_total (\S+)$/m.exec((await send(`${service.url}/metrics`)).text)?.[1] ?? 0);
const eventsOf = async (id: string) => {
  const { rows } = await service.database.client.query(
    "select data from outbox_events where subject = $1 and type = 'dev.doorbuster.payment.duplicated.v1' order by seq",
    [id],
  );
  return rows.map(({ data }) => [data.already_paid_by, data.payment_ref]);
};

test('a second payment gets the first reference, and is stored, counted once and published', async () => {
  const { product, id, order } = await buy();
  const first = await payments.confirm(id, 'pay-1');
  expect(first.data).toEqual({ reservation_id: id, status: 'redeemed', order_id: order });
  expect((await payments.confirm(id, 'pay-1')).data).toEqual(first.data);
  expect((await payments.confirm(id)).data).toEqual(first.data);
  const before = await counted();
  for (let i = 0; i < 3; i += 1) {
    const second = await payments.confirm(id, 'pay-2');
    expect([second.status, second.data]).toEqual([200, { ...first.data, already_paid_by: 'pay-1' }]);
  }
  expect((await payments.confirm(id, 'pay-3')).data.already_paid_by).toBe('pay-1');
  expect((await payments.confirm(id, 'pay-1')).data).toEqual(first.data);
  await until('it is counted', async () => (await counted()) - before === 2);
  const path = `/admin/campaigns/${product}/duplicate-payments`;
  const rows = await until('it is in Postgres', async () => {
    const { data } = await operator.call('GET', path);
    return data.length === 2 ? data : null;
  });
  expect(rows).toMatchObject([
    { reservation_id: id, order_id: order, already_paid_by: 'pay-1', payment_ref: 'pay-3' },
    { reservation_id: id, order_id: order, already_paid_by: 'pay-1', payment_ref: 'pay-2' },
  ]);
  expect((await operator.call('GET', `${path}?limit=1`)).data).toHaveLength(1);
  expectProblem(await operator.call('GET', `${path}?limit=0`), 400, 'invalid_request');
  await until('the events are made', async () => (await eventsOf(id)).length === 2);
  expect(await eventsOf(id)).toEqual([
    ['pay-1', 'pay-2'],
    ['pay-1', 'pay-3'],
  ]);
});

test('one of many simultaneous payments is the first, and all others get its reference', async () => {
  const { id } = await buy();
  const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => payments.confirm(id, `pay-${i}`)));
  const firsts = answers.flatMap(({ data }, i) => (data.already_paid_by ? [] : [`pay-${i}`]));
  expect(firsts).toHaveLength(1);
  for (const { status, data } of answers) {
    expect(status).toBe(200);
    expect([undefined, firsts[0]]).toContain(data.already_paid_by);
  }
});

test('in a campaign without payment, the first reference that arrives is the first payment', async () => {
  const { id } = await buy({ hold_seconds: 0 });
  expect((await payments.confirm(id, 'pay-1')).data.already_paid_by).toBeUndefined();
  expect((await payments.confirm(id, 'pay-2')).data.already_paid_by).toBe('pay-1');
});

test('a payment of what was refunded or released is refused: its sender refunds it', async () => {
  const [refunded, released] = [await buy(), await buy()];
  await payments.confirm(refunded.id, 'pay-1');
  await payments.refund(refunded.id);
  expectProblem(await payments.confirm(refunded.id, 'pay-2'), 409, 'reservation_refunded');
  await payments.release(released.id);
  expectProblem(await payments.confirm(released.id, 'pay-2'), 409, 'reservation_released');
  expect([await eventsOf(refunded.id), await eventsOf(released.id)]).toEqual([[], []]);
});
