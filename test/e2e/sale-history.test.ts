import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive, checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** What happened in a sale, minute by minute. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);
const { client: sql } = service.database;
type Minute = Record<string, number> & { minute: string };

test('the history has what happened in each minute, and what operators did', async () => {
  const product = await operator.openCampaign({
    total_limit: 3,
    max_qty: 2,
    hold_seconds: 900,
    waiting_room: { enabled: true },
    branding: { price: 1_250, currency: 'EUR' },
  });
  const path = `/admin/campaigns/${product}/history`;
  const two = (await arrive(service.url, product).checkout({ qty: 2 })).data.reservation_id;
  const [first, ...waiting] = gatherShoppers(service.url, product, 3);
  const one = (await first?.checkout())?.data.reservation_id;
  await checkoutInTurn(waiting);
  await payments.confirm(two, 'pay-1');
  await payments.release(one);
  await operator.call('POST', `/admin/campaigns/${product}/pause`);
  await payments.refund(two);
  const sums = (minutes: Minute[]) => {
    const all: Record<string, number> = {};
    for (const { minute: _, median_wait_seconds: __, currency: ___, ...counts } of minutes)
      for (const [name, value] of Object.entries(counts)) all[name] = (all[name] ?? 0) + value;
    return all;
  };
  const { data } = await until('all is written', async () => {
    const found = await operator.call('GET', path);
    return sums(found.data.minutes).refunded === 1 && found.data.actions.length >= 2 && found;
  });
  expect(sums(data.minutes)).toEqual({
    reserved: 2,
    joined: 2,
    promoted: 1,
    paid: 1,
    paid_units: 2,
    expired: 0,
    released: 1,
    refunded: 1,
    revenue: 2_500,
  });
  const waits = data.minutes.flatMap(({ median_wait_seconds }: Minute) => median_wait_seconds ?? []);
  const { rows } = await sql.query(
    `select extract(epoch from r.reserved_at - t.joined_at)::float8 as seconds from redemptions r
     join waiting_tickets t using (campaign_id, line_no) join campaigns c using (campaign_id) where c.product_id = $1`,
    [product],
  );
  // Within 2.5 %, and in tenths of a second: on a fast machine it is 0.
  const [{ seconds }] = rows;
  expect(Math.abs(waits[0] - seconds)).toBeLessThanOrEqual(seconds * 0.025 + 0.05);
  expect(waits).toHaveLength(1);
  for (const { minute } of data.minutes) expect(minute).toMatch(/:00\.000Z$/);
  expect(data.actions).toEqual([
    { at: expect.any(String), by: 'tester', action: 'campaign.create' },
    { at: expect.any(String), by: 'tester', action: 'campaign.pause' },
  ]);

  const report = `/admin/campaigns/${product}/report`;
  const { data: whole } = await operator.call('GET', report);
  expect(whole).toEqual({
    ...{ product_id: product, name: expect.any(String), status: 'paused', total: 3, ends_at: null },
    ...{ starts_at: expect.any(String), reservations: 3, paid_percent: 33.3, median_wait_seconds: waits[0] },
    ...{ reserved: 2, joined: 2, promoted: 1, paid: 1, paid_units: 2, expired: 0, released: 1, refunded: 1 },
    ...{ busiest_minute: expect.stringMatching(/:00\.000Z$/), busiest_minute_claims: expect.any(Number) },
    revenue: [{ currency: 'EUR', amount: 2_500 }],
  });
  const one_row = await operator.call('GET', `${report}?format=csv`);
  expect(one_row.headers.get('content-disposition')).toBe(`attachment; filename="report-${product}.csv"`);
  const [names = '', values = ''] = one_row.text.trim().split('\n');
  expect(names.split(',').sort()).toEqual(Object.keys(whole).sort());
  expect(values).toMatch(/,2500 EUR$/);

  const csv = await operator.call('GET', `${path}?format=csv`);
  expect(csv.headers.get('content-disposition')).toBe(`attachment; filename="sale-${product}.csv"`);
  const [header, ...lines] = csv.text.trim().split('\n');
  expect(header).toBe(
    'minute,reserved,joined,promoted,paid,paid_units,expired,released,refunded,median_wait_seconds,revenue,currency',
  );
  expect(lines).toHaveLength(data.minutes.length);
  const past = await operator.call('GET', `${path}?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z`);
  expect(past.data).toMatchObject({ minutes: [], actions: [] });
});

test('a worker counts the minutes of campaigns that are marked, and their history is whole meanwhile', async () => {
  const product = await operator.openCampaign({ total_limit: 9, hold_seconds: 0 });
  const read = async () => (await operator.call('GET', `/admin/campaigns/${product}/history`)).data.minutes;
  for (let i = 0; i < 3; i += 1) expect((await arrive(service.url, product).checkout()).status).toBe(200);
  const paid = (minutes: Minute[]) => minutes.reduce((sum, one) => sum + Number(one.paid), 0);
  const before = await until('all is written', async () => {
    const minutes = await read();
    return paid(minutes) === 3 && minutes;
  });
  await sql.query('select recount_sale_minutes(array(select campaign_id from campaigns where product_id = $1))', [
    product,
  ]);
  expect(await read()).toEqual(before);
  await until('a worker has counted them', async () => {
    const { rows } = await sql.query('select 1 from sale_minutes_pending');
    return rows.length === 0;
  });
  expect(await read()).toEqual(before);
});

test('a wrong period is 400, and an unknown campaign 404', async () => {
  const product = await operator.openCampaign();
  const path = `/admin/campaigns/${product}/history`;
  expect((await operator.call('GET', path)).data.minutes).toEqual([]);
  for (const query of [
    'from=2031-01-02T00:00:00Z&to=2031-01-01T00:00:00Z',
    'from=2031-01-01T00:00:00Z&to=2031-01-09T00:00:00Z',
    'from=now',
    'format=xml',
  ])
    expectProblem(await operator.call('GET', `${path}?${query}`), 400, 'invalid_request');
  for (const part of ['history', 'report'])
    expectProblem(await operator.call('GET', `/admin/campaigns/none/${part}`), 404, 'campaign_not_found');
  const empty = (await operator.call('GET', `/admin/campaigns/${product}/report`)).data;
  expect(empty).toMatchObject({
    paid: 0,
    paid_percent: null,
    median_wait_seconds: null,
    busiest_minute: null,
    revenue: [],
  });
});
