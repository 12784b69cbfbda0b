import { expect, test } from '@jest/globals';
import { estimatedWaitSeconds } from './estimate.js';

test('estimates the wait at a position by the pace of its line, with limited precision', () => {
  const estimates = [
    [1, 1, 5],
    [1, 5_000, 5],
    [3, 2_000, 10],
    [12, 5_000, 60],
    [13, 5_000, 120],
    [720, 5_000, 3_600],
    [721, 5_000, 4_200],
    [86_400, 1_000, 86_400],
  ] as const;
  for (const [position, paceMs, seconds] of estimates) {
    expect([position, paceMs, estimatedWaitSeconds(position, paceMs)]).toEqual([position, paceMs, seconds]);
  }
});

test('returns null without a pace, and for more than a day', () => {
  expect(estimatedWaitSeconds(1, null)).toBeNull();
  expect(estimatedWaitSeconds(86_401, 1_000)).toBeNull();
});
