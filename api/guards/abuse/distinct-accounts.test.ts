import { expect, test } from '@jest/globals';
import { DistinctAccounts } from './distinct-accounts.js';

test('counts the users of a place once each, up to the limit', () => {
  const seen = new DistinctAccounts(100, 60_000);
  const users = ['ann', 'ann', 'bob', 'ann', 'cid', 'bob', 'dan', 'eve'];
  expect(users.map((user) => seen.see('phone', user, 4))).toEqual([1, 1, 2, 2, 3, 3, 4, 4]);
  expect(seen.see('pad', 'ann', 4)).toBe(1);
  expect(seen.see('single', 'ann', 1)).toBe(1);
  expect(seen.see('single', 'bob', 1)).toBe(1);
});

test('does not confuse places, although there are many', () => {
  const seen = new DistinctAccounts(100, 60_000);
  const numbers = Array.from({ length: 200_000 }, (_, i) => i);
  expect(numbers.filter((i) => seen.see(`device-${i}`, `user-${i}`, 5) !== 1)).toEqual([]);
});

test('drops places that were unused for two generations, by time or by capacity', () => {
  let now = 0;
  const seen = new DistinctAccounts(2, 1_000, () => now);
  const twice = (place: string) => {
    seen.see(place, 'ann', 5);
    return seen.see(place, 'bob', 5);
  };
  expect(twice('a')).toBe(2);
  seen.see('single', 'ann', 5);
  now = 1_001;
  expect(seen.see('single', 'bob', 5)).toBe(1);
  expect(seen.see('a', 'cid', 5)).toBe(3);
  now = 4_000;
  expect(seen.see('a', 'dan', 5)).toBe(1);
  for (const place of ['b', 'c', 'd', 'e', 'f']) expect(twice(place)).toBe(2);
  expect(seen.see('f', 'cid', 5)).toBe(3);
  // Only the slot of its first user remains, and this user is another one.
  expect(seen.see('b', 'cid', 5)).toBe(2);
});
