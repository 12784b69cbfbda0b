import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem, pointersOf } from '../harness/checks.js';
import { Operator } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';

/** Discount, audience, stacking and window of a campaign, as operators write them. */
const service = await sharedService();
const operator = new Operator(service.url);

const create = (terms: Record<string, unknown>) =>
  operator.call('POST', '/admin/campaigns', { product_id: `sale-${randomUUID()}`, total_limit: null, ...terms });
const change = (product: unknown, terms: Record<string, unknown>) =>
  operator.call('PATCH', `/admin/campaigns/${product}`, terms);

async function expectRefused(terms: Record<string, unknown>, ...pointers: string[]): Promise<void> {
  const product = await operator.openCampaign();
  for (const answer of [await create(terms), await change(product, terms)]) {
    expectProblem(answer, 400, 'invalid_request');
    expect([terms, [...new Set(pointersOf(answer))]]).toEqual([terms, pointers]);
  }
}

describe('a discount', () => {
  test('is kept as it was given', async () => {
    for (const discount of [
      { kind: 'percent', percent: 12.5 },
      { kind: 'percent', percent: 0.01 },
      { kind: 'percent', percent: 100 },
      { kind: 'amount', amount: 999_999_999_999_999, currency: 'JPY' },
      { kind: 'free_shipping' },
      null,
    ]) {
      expect((await create({ discount })).data.discount).toEqual(discount);
    }
  });

  test('that cannot be is refused', async () => {
    for (const percent of [0, -5, 100.01, 12.345, 1e300, '10'])
      await expectRefused({ discount: { kind: 'percent', percent } }, '#/discount/percent');
    for (const amount of [0, -1, 0.5, 1e15, 1e300, '5'])
      await expectRefused({ discount: { kind: 'amount', amount, currency: 'EUR' } }, '#/discount/amount');
    for (const currency of ['eur', 'XYZ', 'EURO', '', 978])
      await expectRefused({ discount: { kind: 'amount', amount: 1, currency } }, '#/discount/currency');
    await expectRefused({ discount: { kind: 'gift' } }, '#/discount/kind');
  });
});

describe('an audience', () => {
  test('is kept as it was given, and taken away by null', async () => {
    const audience = {
      and: [
        { attribute: 'tier', in: ['gold', 'platinum'] },
        { not: { attribute: 'country', eq: 'US' } },
        {
          or: [
            { attribute: 'age', gte: 18, lt: 65 },
            { attribute: 'joined', lt: '2026-01-01T00:00:00+07:00' },
          ],
        },
      ],
    };
    const { data } = await create({ audience });
    expect(data.audience).toEqual(audience);
    expect((await change(data.id, { audience: null })).data.audience).toBeNull();
  });

  test('with a mistake is refused, with a pointer to its place', async () => {
    await expectRefused({ audience: {} }, '#/audience/attribute', '#/audience');
    await expectRefused({ audience: { tier: ['gold'] } }, '#/audience/attribute', '#/audience/tier');
    await expectRefused(
      { audience: { and: [{ attribute: 'a', eq: 1 }, { or: [{ attribute: 'b', lt: 'soon' }] }] } },
      '#/audience/and/1/or/0/lt',
    );
    await expectRefused({ audience: 'everybody' }, '#/audience');
    let deep: unknown = { attribute: 'a', eq: 1 };
    for (let level = 0; level < 1_000; level += 1) deep = { not: deep };
    await expectRefused({ audience: deep as object }, `#/audience${'/not'.repeat(8)}`);
  });
});

test('stacking is kept, and refused when it is none', async () => {
  const stacking = { exclusive: true, group: 'food', priority: 5 };
  expect((await create({ stacking })).data.stacking).toEqual(stacking);
  await expectRefused({ stacking: { group: 'food' } }, '#/stacking/exclusive');
  await expectRefused({ stacking: { exclusive: false, group: '' } }, '#/stacking/group');
  await expectRefused({ stacking: { exclusive: false, priority: 1.5 } }, '#/stacking/priority');
  await expectRefused({ stacking: { exclusive: false, priority: 1_001 } }, '#/stacking/priority');
});

describe('the window of a sale', () => {
  const window = ({ data }: { data: Record<string, unknown> }) => [
    data.starts_at,
    data.starts_at_local,
    data.ends_at,
    data.ends_at_local,
    data.time_zone,
  ];

  test('of days is of days in its time zone, the last one included', async () => {
    const jakarta = { time_zone: 'Asia/Jakarta', starts_at: '2031-09-09', ends_at: '2031-09-09' };
    const expected = [
      '2031-09-08T17:00:00.000Z',
      '2031-09-09T00:00:00.000+07:00',
      '2031-09-09T17:00:00.000Z',
      '2031-09-10T00:00:00.000+07:00',
      'Asia/Jakarta',
    ];
    const created = await create(jakarta);
    expect(window(created)).toEqual(expected);
    expect(created.data.status).toBe('scheduled');
    expect(window(await operator.call('GET', `/admin/campaigns/${created.data.id}`))).toEqual(expected);
  });

  test('of local times follows the clocks when they change', async () => {
    const losAngeles = { time_zone: 'America/Los_Angeles', starts_at: '2031-03-09T02:30', ends_at: '2031-11-02T01:30' };
    expect(window(await create(losAngeles))).toEqual([
      '2031-03-09T10:00:00.000Z',
      '2031-03-09T03:00:00.000-07:00',
      '2031-11-02T09:30:00.000Z',
      '2031-11-02T01:30:00.000-08:00',
      'America/Los_Angeles',
    ]);
  });

  test('of moments is the same in every zone', async () => {
    const { data } = await create({ time_zone: 'Asia/Tokyo', starts_at: '2031-01-01T00:00:00-08:00' });
    expect([data.starts_at, data.starts_at_local, data.ends_at, data.ends_at_local]).toEqual([
      '2031-01-01T08:00:00.000Z',
      '2031-01-01T17:00:00.000+09:00',
      null,
      null,
    ]);
  });

  test('is changed by local times in the zone that the campaign has, or gets with them', async () => {
    const { data } = await create({ time_zone: 'Asia/Jakarta', starts_at: '2031-09-09' });
    expect((await change(data.id, { ends_at: '2031-09-10' })).data.ends_at).toBe('2031-09-10T17:00:00.000Z');
    expect(window(await change(data.id, { time_zone: 'Asia/Tokyo', ends_at: '2031-09-10' }))).toEqual([
      '2031-09-08T17:00:00.000Z',
      '2031-09-09T02:00:00.000+09:00',
      '2031-09-10T15:00:00.000Z',
      '2031-09-11T00:00:00.000+09:00',
      'Asia/Tokyo',
    ]);
  });

  test('is not moved by another time zone alone, also while the sale is on', async () => {
    const { data } = await create({ ends_at: '2031-09-09', time_zone: 'Asia/Jakarta' });
    const moved = (await change(data.id, { time_zone: 'UTC' })).data;
    expect([moved.starts_at, moved.ends_at, moved.ends_at_local]).toEqual([
      data.starts_at,
      '2031-09-09T17:00:00.000Z',
      '2031-09-09T17:00:00.000+00:00',
    ]);
    expectProblem(await change(data.id, { starts_at: '2031-09-01' }), 409, 'campaign_conflict');
  });

  test('that has ended in its zone, though not in that of the shopper, is over', async () => {
    const { rows } = await service.database.client.query<{ day: string }>(
      `select to_char(now() at time zone 'Pacific/Kiritimati' - interval '1 day', 'YYYY-MM-DD') as day`,
    );
    const yesterday = { time_zone: 'Pacific/Kiritimati', starts_at: '2020-01-01', ends_at: rows[0]?.day };
    const over = (await create({ ...yesterday, total_limit: 1 })).data;
    expectProblem(await arrive(service.url, String(over.product_id)).checkout(), 410, 'campaign_ended');
    const today = (await create({ ...yesterday, time_zone: 'Etc/GMT+12', total_limit: 1 })).data;
    expect((await arrive(service.url, String(today.product_id)).checkout()).status).toBe(200);
  });

  test('is refused when it is none', async () => {
    for (const starts_at of [
      'tomorrow',
      '2031-02-30',
      '2031-01-01T25:00',
      '2031-01-01 10:00',
      '1970-01-01',
      '9999-06-01',
    ])
      await expectRefused({ starts_at }, '#/starts_at');
    await expectRefused({ ends_at: '9998-12-31' }, '#/ends_at');
    for (const time_zone of ['Mars/Olympus', '+07:00', '', 7]) await expectRefused({ time_zone }, '#/time_zone');
    const backwards = await create({ starts_at: '2031-09-10', ends_at: '2031-09-09' });
    expectProblem(backwards, 400, 'invalid_request');
    expect(pointersOf(backwards)).toEqual(['#/ends_at']);
  });
});
