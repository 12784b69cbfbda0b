import { expect, test } from '@jest/globals';
import { actionText, linesOf, type Minute, moneyText, reportOf, type SaleReport } from './history-words.js';

const minute = (at: string, counts: Partial<Minute>): Minute => ({
  minute: at,
  reserved: 0,
  joined: 0,
  promoted: 0,
  paid: 0,
  paid_units: 0,
  expired: 0,
  released: 0,
  refunded: 0,
  median_wait_seconds: null,
  revenue: null,
  currency: null,
  ...counts,
});
const EUR = { revenue: 9_995, currency: 'EUR' };
const HISTORY = {
  from: '2026-11-22T10:00:00.000Z',
  to: '2026-11-22T11:00:00.000Z',
  minutes: [
    minute('2026-11-22T10:00:00.000Z', { reserved: 3, joined: 2 }),
    minute('2026-11-22T10:03:00.000Z', {
      promoted: 1,
      paid: 2,
      paid_units: 5,
      expired: 1,
      median_wait_seconds: 90,
      ...EUR,
    }),
  ],
  actions: [],
};

const REPORT: SaleReport = {
  reservations: 4,
  joined: 2,
  promoted: 1,
  paid: 2,
  paid_units: 5,
  paid_percent: 50,
  expired: 1,
  released: 0,
  refunded: 0,
  median_wait_seconds: 90,
  busiest_minute: '2026-11-22T10:00:00.000Z',
  busiest_minute_claims: 5,
  revenue: [],
};

test('the report has units, share of payments, waits, and revenue if there is a price', () => {
  const report = Object.fromEntries(reportOf(REPORT));
  expect(report).toMatchObject({
    'Units sold': '5',
    Reservations: '4',
    Paid: '2 (50 %)',
    'Time to pay ran out': '1',
    'Median wait': '1 min 30 s',
    'Busiest minute': expect.stringMatching(/: 5 claims$/),
  });
  expect(Object.keys(report)).not.toContain('Revenue, at the price of the sale page');
  const none = { ...REPORT, paid: 0, paid_percent: null, median_wait_seconds: null, busiest_minute: null };
  expect(Object.fromEntries(reportOf(none))).toMatchObject({ Paid: '0', 'Median wait': '–', 'Busiest minute': '–' });
  const revenue = [
    { currency: 'EUR', amount: 9_995 },
    { currency: 'JPY', amount: 3_000 },
  ];
  expect(Object.fromEntries(reportOf({ ...REPORT, revenue }))).toMatchObject({
    'Revenue, at the price of the sale page': '€99.95 + JP¥3,000',
  });
});

test('amounts are in minor units of their currency', () => {
  expect(moneyText(1_500, 'JPY')).toBe('JP¥1,500');
  expect(moneyText(1_500, 'EUR')).toBe('€15.00');
  expect(moneyText(150_000, 'IDR')).toMatch(/^IDR\s1,500/);
});

test('the chart has a zero for each quiet minute', () => {
  const [times, got, paid, joined, expired] = linesOf(HISTORY);
  expect(times).toEqual([0, 1, 2, 3, 4].map((i) => Date.parse(HISTORY.from) / 1000 + i * 60));
  expect(got).toEqual([3, 0, 0, 1, 0]);
  expect(paid).toEqual([0, 0, 0, 2, 0]);
  expect(joined).toEqual([2, 0, 0, 0, 0]);
  expect(expired).toEqual([0, 0, 0, 1, 0]);
  expect(linesOf({ ...HISTORY, minutes: [] })[0]).toEqual([]);
});

test('an action is named in words', () => {
  expect(actionText('campaign.pause')).toBe('paused');
  expect(actionText('campaign.open')).toBe('opened');
  expect(actionText('campaign.amend')).toBe('terms changed');
});
