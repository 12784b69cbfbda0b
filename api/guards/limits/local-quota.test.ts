import { expect, test } from '@jest/globals';
import { LocalQuota } from './local-quota.js';

test('admits as many as its limit in a window, and says how long to wait', () => {
  let now = 0;
  const quota = new LocalQuota(2, 100, 10, () => now);
  expect([quota.take('a'), quota.take('a'), quota.waitOf('a'), quota.waitOf('b')]).toEqual([0, 0, 100, 0]);
  now = 40;
  expect([quota.take('a'), quota.take('b'), quota.count('b')]).toEqual([60, 0, 2]);
  now = 100;
  expect([quota.waitOf('a'), quota.take('a')]).toEqual([0, 0]);
});

test('evicts the oldest caller when it is full', () => {
  const quota = new LocalQuota(1, 100, 2, () => 0);
  quota.take('a');
  quota.take('b');
  quota.take('c');
  expect([quota.waitOf('a'), quota.waitOf('b'), quota.waitOf('c')]).toEqual([0, 100, 100]);
});

test('an uncounted call no longer counts and takes no room', () => {
  const quota = new LocalQuota(1, 100, 2, () => 0);
  quota.count('a');
  quota.count('b');
  quota.count('b');
  quota.uncount('a');
  quota.uncount('b');
  quota.uncount('unknown');
  quota.count('c');
  expect([quota.countOf('a'), quota.countOf('b'), quota.countOf('c')]).toEqual([0, 1, 1]);
});
