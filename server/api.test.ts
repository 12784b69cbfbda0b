import { describe, expect, test } from '@jest/globals';
import { Doorbuster } from './api.js';

const problem = { type: 'https://doorbuster.dev/errors/campaign_exists', code: 'campaign_exists', status: 409 };
const exists = () => Response.json(problem, { status: 409 });
const created = {
  id: 'c1',
  product_id: 'lamp',
  total_limit: 5,
  starts_at: '2031-01-01T00:00:00.000Z',
  status: 'scheduled',
};

/** A shop whose calls get these responses; null = the response is lost. */
function shopWith(answers: (Response | null)[], retries = 3) {
  const send = async () => {
    const answer = answers.shift();
    if (!answer) throw new TypeError('the response was lost');
    return answer;
  };
  return new Doorbuster({
    baseUrl: 'https://sale.example',
    serviceKey: 's',
    adminKey: 'a',
    retries,
    fetch: send,
  });
}

test('a campaign whose response was lost is returned by the retry', async () => {
  const shop = shopWith([null, exists(), Response.json({ data: created })]);
  const terms = { product_id: 'lamp', total_limit: 5, starts_at: '2031-01-01T01:00:00+01:00' };
  expect(await shop.campaigns.create(terms)).toEqual(created);
});

test('a campaign that was there before, or has other terms, is refused', async () => {
  const terms = { product_id: 'lamp', total_limit: 9 };
  const refused = { code: 'campaign_exists' };
  await expect(shopWith([exists()]).campaigns.create(terms)).rejects.toMatchObject(refused);
  const shop = shopWith([null, exists(), Response.json({ data: created })]);
  await expect(shop.campaigns.create(terms)).rejects.toMatchObject(refused);
});

test('a draft whose response was lost is returned by the retry, and no campaign that is none', async () => {
  const terms = { product_id: 'lamp', total_limit: 5 };
  const shopOf = (status: string) => shopWith([null, exists(), Response.json({ data: { ...created, status } })]);
  const draft = { ...created, status: 'draft' };
  expect(await shopOf('draft').campaigns.create({ ...terms, draft: true })).toEqual(draft);
  expect(await shopOf('open').campaigns.create({ ...terms, draft: false })).toMatchObject({ status: 'open' });
  const refused = { code: 'campaign_exists' };
  await expect(shopOf('open').campaigns.create({ ...terms, draft: true })).rejects.toMatchObject(refused);
  await expect(shopOf('draft').campaigns.create(terms)).rejects.toMatchObject(refused);
});

/** The clock goes from 02:00 to 03:00. */
const SKIP = {
  time_zone: 'Europe/Berlin',
  starts_at: '2031-03-30T01:00:00.000Z',
  starts_at_local: '2031-03-30T03:00:00.000+02:00',
};

test.each([
  ['more than the clock skips', '2031-03-30T01:30', SKIP],
  [
    'half a second after a skip',
    '2031-03-30T02:30',
    { ...SKIP, starts_at: '2031-03-30T01:00:00.500Z', starts_at_local: '2031-03-30T03:00:00.500+02:00' },
  ],
  ['a time zone that is not known', '2031-03-30T02:30', { ...SKIP, time_zone: 'Moon/Base' }],
  [
    'no skip',
    '2031-03-30T03:30',
    { ...SKIP, starts_at: '2031-03-30T02:00:00Z', starts_at_local: '2031-03-30T04:00:00.000+02:00' },
  ],
])('a campaign that starts later, by %s, is refused', async (_, sent, found) => {
  const shop = shopWith([null, exists(), Response.json({ data: { ...created, ...found } })]);
  const terms = { product_id: 'lamp', total_limit: 5, starts_at: sent };
  await expect(shop.campaigns.create(terms)).rejects.toMatchObject({ code: 'campaign_exists' });
});

test.each([
  ['name', 'Lamp 01', 'Lamp 1'],
  ['code', '1/2/2031', '01/02/2031'],
  ['limits', { device: '1' }, { device: '01' }],
  ['regions', ['eu'], ['eu', 'us']],
  ['starts_at', '2031-01-01T00:00:00Z', '2031-01-01T00:00:01.000Z'],
  ['starts_at', '2031-01-01T00:00:00Z', null],
  ['starts_at', '2031-01-01T00:00', '2031-01-01T00:00:00.000Z'],
])('a campaign with another %s is refused', async (name, sent, found) => {
  const shop = shopWith([null, exists(), Response.json({ data: { ...created, [name]: found } })]);
  const terms = { product_id: 'lamp', total_limit: 5, [name]: sent };
  await expect(shop.campaigns.create(terms)).rejects.toMatchObject({ code: 'campaign_exists' });
});

test.each([
  ['starts_at', '2031-01-01T02:00:00.123456+02:00', { starts_at: '2031-01-01T00:00:00.123Z' }],
  ['ends_at', new Date('2031-02-01T00:00:00.5Z'), { ends_at: '2031-02-01T00:00:00.500Z' }],
  [
    'starts_at',
    '2031-01-01T09:30',
    { starts_at: '2031-01-01T02:30:00.000Z', starts_at_local: '2031-01-01T09:30:00.000+07:00' },
  ],
  [
    'starts_at',
    '2031-01-01',
    { starts_at: '2030-12-31T17:00:00.000Z', starts_at_local: '2031-01-01T00:00:00.000+07:00' },
  ],
  // The day is included.
  ['ends_at', '2031-01-31', { ends_at: '2031-01-31T17:00:00.000Z', ends_at_local: '2031-02-01T00:00:00.000+07:00' }],
  // The clock skips this time, and that day has no midnight.
  ['starts_at', '2031-03-30T02:30', SKIP],
  [
    'starts_at',
    '2031-09-07',
    {
      time_zone: 'America/Santiago',
      starts_at: '2031-09-07T04:00:00.000Z',
      starts_at_local: '2031-09-07T01:00:00.000-03:00',
    },
  ],
])('a campaign has %s as it was sent: %s', async (name, sent, found) => {
  const data = { ...created, ...found };
  const shop = shopWith([null, exists(), Response.json({ data })]);
  expect(await shop.campaigns.create({ product_id: 'lamp', total_limit: 5, [name]: sent })).toEqual(data);
});

test('a problem of another server is no refusal', async () => {
  const terms = { product_id: 'lamp', total_limit: 5 };
  const foreign = [
    { ...problem, type: 'https://shop.example/errors/campaign_exists' },
    { ...problem, type: 'https://doorbuster.dev.example/errors/campaign_exists' },
    { ...problem, type: [problem.type] },
    { ...problem, status: 404 },
    { ...problem, status: undefined },
  ];
  for (const body of foreign) {
    const shop = shopWith([Response.json(body, { status: 409 })], 0);
    await expect(shop.campaigns.create(terms)).rejects.toMatchObject({ code: 'unreachable', status: 0 });
  }
  const shop = shopWith([Response.json(problem, { status: 404 }), Response.json({ data: created })]);
  expect(await shop.campaigns.create(terms)).toEqual(created);
});

describe('a 2xx without the data of the call', () => {
  const [id, other] = ['01a1fc6d-483b-7a4a-9e25-913b00000001', '01a1fc6d-483b-7a4a-9e25-913b00000002'];
  const one = { reservation_id: id };
  const order = { order_id: 'o1' };
  const ofOrder = (...statuses: string[]) => ({
    order_id: 'o1',
    reservations: statuses.map((status) => ({ reservation_id: id, status })),
  });
  const money = { discount_amount: null, total: null };
  const cart = { user_id: 'ann', order_id: 'o1' };
  const key = { idempotencyKey: 'o1-SAVE10' };
  const pay_before = '2031-01-01T00:05:00.000Z';
  const unit = { status: 'redeemed', reservation_id: id, order_id: 'o1', pay_before: null };
  const counts = { total: 5, free: 5, held: 0, redeemed: 0, burned: 0, waiting: 0 };
  const refunded = { status: 'refunded', returned_to_stock: true };
  const kept = { ...one, status: 'reserved', released: false, qty: 1, released_qty: 2 };
  const refundedInPart = { ...one, status: 'redeemed', returned_to_stock: true, qty: 1, refunded_qty: 2 };

  /** Each call with responses of the service, and with those that are not its own. */
  type Case = [name: string, call: (shop: Doorbuster) => Promise<unknown>, genuine: object[], foreign: object[]];
  const CASES: Case[] = [
    [
      'confirm',
      (shop) => shop.confirm({ reservation_id: id.toUpperCase(), payment_ref: 'p' }),
      [{ ...one, status: 'redeemed', order_id: 'o1', qty: 2 }],
      [
        { ...one, status: 'reserved', order_id: 'o1' },
        { reservation_id: other, status: 'redeemed', order_id: 'o1' },
        { status: 'redeemed' },
      ],
    ],
    [
      'confirm by order',
      (shop) => shop.confirm(order),
      [{ ...one, status: 'redeemed', order_id: 'o1' }, ofOrder('redeemed', 'redeemed')],
      [ofOrder('redeemed', 'reserved'), ofOrder(), { ...ofOrder('redeemed'), order_id: 'o2' }],
    ],
    [
      'release',
      (shop) => shop.release(one),
      [
        { ...one, released: true, status: 'released' },
        { ...one, released: true, status: 'expired' },
      ],
      [{ ...one, status: 'released' }, { ...one, released: true, status: 'redeemed' }, kept],
    ],
    ['release of a part', (shop) => shop.release({ ...one, keep: 1 }), [kept], [{ ...kept, qty: '1' }]],
    ['release of an order', (shop) => shop.release(order), [ofOrder('released', 'expired')], [ofOrder('redeemed')]],
    [
      'extend',
      (shop) => shop.extend(one),
      [{ ...one, status: 'extended', pay_before }],
      [{ ...one, status: 'extended', pay_before: null }],
    ],
    ['extend of an order', (shop) => shop.extend(order), [ofOrder('extended')], [ofOrder('reserved')]],
    [
      'refund',
      (shop) => shop.refund(one),
      [{ ...one, ...refunded }],
      [{ ...one, status: 'redeemed', returned_to_stock: true }, { ...one, status: 'refunded' }, refunded],
    ],
    [
      'refund of a part',
      (shop) => shop.refund({ ...one, keep: 1 }),
      [refundedInPart],
      [{ ...refundedInPart, refunded_qty: undefined }],
    ],
    [
      'reservation',
      (shop) => shop.reservation(id),
      [{ ...one, product_id: 'lamp', status: 'voided' }],
      [{ ...one, product_id: 'lamp', status: 'ok' }],
    ],
    [
      'validate',
      (shop) => shop.validate({ code: 'SAVE10', user_id: 'ann' }),
      [{ valid: true, ...money, campaign: { product_id: 'lamp' } }],
      [{ valid: true }, { ...money, valid: 'yes', campaign: { product_id: 'lamp' } }, { valid: true, ...money }],
    ],
    [
      'validate of several',
      (shop) => shop.validate({ codes: ['SAVE10', 'SAVE20'], user_id: 'ann' }),
      [{ valid: false, ...money, applied: [], left_out: [] }],
      [{ valid: false, ...money }],
    ],
    [
      'redeem',
      (shop) => shop.redeem({ code: 'SAVE10', ...cart }, key),
      [unit, { ...unit, status: 'reserved', pay_before }, { status: 'queued', position: 1, queue_size: 1 }],
      [{ ...unit, order_id: 'o2' }, { ...unit, status: 'released' }, { status: 'queued' }],
    ],
    [
      'campaigns.create',
      (shop) => shop.campaigns.create({ product_id: 'lamp', total_limit: 5 }),
      [created],
      [
        { ...created, product_id: 'door' },
        { ...created, status: 'ok' },
      ],
    ],
    ['campaigns.get', (shop) => shop.campaigns.get('C1'), [created], [{ ...created, id: 'c2' }]],
    [
      'campaigns.update',
      (shop) => shop.campaigns.update('lamp', { name: 'Lamp' }),
      [created],
      [{ ...created, product_id: 'door' }],
    ],
    [
      'campaigns.pause',
      (shop) => shop.campaigns.pause('lamp'),
      [{ ...created, status: 'paused' }],
      [{ ...created, status: 'open' }],
    ],
    [
      'campaigns.resume',
      (shop) => shop.campaigns.resume('lamp'),
      [created, { ...created, status: 'open' }],
      [{ ...created, status: 'paused' }],
    ],
    [
      'campaigns.close',
      (shop) => shop.campaigns.close('lamp'),
      [{ ...created, status: 'closed' }],
      [{ ...created, status: 'paused' }],
    ],
    [
      'campaigns.stats',
      (shop) => shop.campaigns.stats('lamp'),
      [counts, { ...counts, total: null, free: null }],
      [{ ...counts, redeemed: undefined }],
    ],
  ];
  const FOREIGN = [null, [], 'status', 7, { id: 7 }, { status: 'ok' }];

  test.each(CASES)('is no response to %s', async (_, call, genuine, foreign) => {
    for (const data of genuine) expect(await call(shopWith([Response.json({ data })], 0))).toEqual(data);
    for (const data of [...FOREIGN, ...foreign]) {
      const got = await call(shopWith([Response.json({ data, errors: [{ message: 'x' }] })], 0)).catch(
        (error) => error,
      );
      expect([data, got]).toEqual([data, expect.objectContaining({ code: 'unreachable', status: 0 })]);
    }
  });

  test('is retried', async () => {
    const data = { ...one, status: 'redeemed', order_id: 'o1' };
    expect(await shopWith([Response.json({ data: null }), Response.json({ data })]).confirm(one)).toEqual(data);
  });

  test('may have extended the reservation', async () => {
    const type = 'https://doorbuster.dev/errors/already_extended';
    const already = (members: object) =>
      Response.json({ type, code: 'already_extended', status: 409, ...members }, { status: 409 });
    const data = { ...one, status: 'extended', pay_before };
    expect(await shopWith([Response.json({ data: [] }), already({ ...one, pay_before })]).extend(one)).toEqual(data);
    const refused = { code: 'already_extended' };
    await expect(shopWith([Response.json({ data: [] }), already({})]).extend(one)).rejects.toMatchObject(refused);
  });
});
