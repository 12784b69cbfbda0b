import { describe, expect, test } from '@jest/globals';
import { changedOf, nextProductId } from './campaign-form.js';
import { isLargeRestock, restockText } from './restock-words.js';
import { simpleCondition } from './rule-fields.js';
import { valueText } from './term-fields.js';
import { warningsOf } from './warnings.js';

const NOW = new Date('2026-11-22T12:00:00Z');
const GOOD = {
  type: 'shared',
  status: 'draft',
  total_limit: 100,
  starts_at: '2026-11-23T12:00:00Z',
  ends_at: '2026-11-24T12:00:00Z',
  hold_seconds: 300,
  waiting_room: { enabled: true },
  audience: null,
  code: null,
};

describe('Warnings of a campaign', () => {
  test('are none for a plain sale', () => expect(warningsOf(GOOD, 0, NOW)).toEqual([]));

  test.each([
    [{ type: 'pool', total_limit: 500 }, /^0 codes, 500 units/],
    [{ type: 'unique', total_limit: 500 }, /^0 codes, 500 units/],
    [{ total_limit: 0 }, /no units/],
    [{ total_limit: null }, /unlimited and anyone/],
    [{ starts_at: '2026-11-22T11:00:00Z' }, /begins as soon as/],
    [{ ends_at: '2026-11-22T11:00:00Z' }, /end is in the past/],
    [{ starts_at: '2026-11-24T11:59:30Z' }, /less than a minute/],
    [{ hold_seconds: 0 }, /nothing is to be paid/],
    [{ hold_seconds: 30 }, /30 s to pay/],
  ])('name what is probably not meant: %j', (change, text) => {
    expect(warningsOf({ ...GOOD, ...change }, 0, NOW)).toContainEqual(expect.stringMatching(text));
    expect(warningsOf({ ...GOOD, ...change, status: 'closed' }, 0, NOW)).toEqual([]);
  });

  test('say nothing about a short time to pay once users have paid', () => {
    expect(warningsOf({ ...GOOD, hold_seconds: 30 }, 0, NOW, 1)).toEqual([]);
    expect(warningsOf({ ...GOOD, hold_seconds: 30 }, 0, NOW, 0)).toHaveLength(1);
  });

  test('count the codes', () => {
    expect(warningsOf({ ...GOOD, type: 'pool' }, 40, NOW)).toEqual([
      '40 codes, 100 units: units without a code cannot be taken.',
    ]);
    expect(warningsOf({ ...GOOD, type: 'pool' }, 100, NOW)).toEqual([]);
  });
});

describe('A restock', () => {
  test('is large above 20 % of the stock, or above the line, but not below ten units', () => {
    expect(isLargeRestock(20, { total: 100, waiting: 0 })).toBe(false);
    expect(isLargeRestock(21, { total: 100, waiting: 0 })).toBe(true);
    expect(isLargeRestock(15, { total: 100, waiting: 14 })).toBe(true);
    expect(isLargeRestock(15, { total: 100, waiting: 15 })).toBe(false);
    expect(isLargeRestock(10, { total: 1, waiting: 1 })).toBe(false);
    expect(isLargeRestock(-90, { total: 100, waiting: 0 })).toBe(false);
  });

  test('says how many users it promotes', () => {
    expect(restockText(50, { total: 100, waiting: 200 })).toContain('Up to 50 of 200 waiting users are promoted');
    expect(restockText(500, { total: 100, waiting: 200 })).toContain('All 200 waiting users are promoted');
    expect(restockText(5, { total: 100, waiting: 1 })).toContain('The waiting user is promoted');
    expect(restockText(5, { total: 100, waiting: 0 })).toBe(
      'The stock becomes 105 units. No user is waiting, so the units become free.',
    );
    expect(restockText(-5, { total: 100, waiting: 9 })).toContain('5 free units are removed');
    expect(restockText(0, { total: 100, waiting: 9 })).toBe('');
  });
});

test('a copy gets the next product id', () => {
  expect(nextProductId('sale')).toBe('sale-2');
  expect(nextProductId('sale-2')).toBe('sale-3');
  expect(nextProductId('sale-2026')).toBe('sale-2027');
  expect(nextProductId('x'.repeat(128)).length).toBeLessThanOrEqual(128);
});

test('only members that differ are sent', () => {
  expect(changedOf({ a: 1, b: { c: 2 }, d: 3 }, { a: 1, b: { c: 3 }, d: 3 })).toEqual({ b: { c: 3 } });
});

test('a rule is shown in fields only if they give it back', () => {
  expect(simpleCondition({ attribute: 'tier', eq: 'gold' })).toEqual({ attribute: 'tier', test: 'eq', value: 'gold' });
  expect(simpleCondition({ attribute: 'tier', in: ['a', 'b'] })?.value).toBe('a, b');
  expect(simpleCondition({ attribute: 'age', gte: 18 })?.value).toBe('18');
  for (const rule of [
    null,
    { and: [] },
    { attribute: 'a', eq: '18' },
    { attribute: 'a', eq: 'true' },
    { attribute: 'a', in: ['x,y'] },
    { attribute: 'a', gte: 1, lte: 2 },
    { attribute: 'a', exists: false },
    { attribute: 'a', gt: 1 },
  ])
    expect([rule, simpleCondition(rule)]).toEqual([rule, null]);
});

test('a changed term is shown in words', () => {
  expect(valueText('discount', { kind: 'percent', percent: 10 })).toBe('10 %');
  expect(valueText('waiting_room', { enabled: true, max_size: 1000, presence_seconds: 60 })).toBe(
    'up to 1,000 people, seen every 1 min',
  );
  const absent = { enabled: true, max_size: 1000, presence_seconds: 60, absent_hold_seconds: 900 };
  expect(valueText('waiting_room', absent)).toBe(
    'up to 1,000 people, seen every 1 min, absent ones have 15 min to pay',
  );
  expect(valueText('audience', null)).toBe('none');
  expect(valueText('require_token', true)).toBe('yes');
  expect(valueText('limits', { attestation_level: 1 })).toBe('{"attestation_level":1}');
});
