import { expect, test } from '@jest/globals';
import { estimatedWaitSeconds } from './estimate.js';

test('tells how long a place takes at the pace of its line, no more exactly than it can be known', () => {
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

test('says nothing where nothing is known, or it would be more than a day', () => {
  expect(estimatedWaitSeconds(1, null)).toBeNull();
  expect(estimatedWaitSeconds(86_401, 1_000)).toBeNull();
});
