import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { POLL_MAX_SECONDS, POLL_MIN_SECONDS, pollAfterSeconds } from './polling.js';

test('makes the head of the line poll often and the tail rarely', () => {
  const expected: [number, number][] = [
    [1, 2],
    [499, 2],
    [500, 3],
    [999, 3],
    [1_000, 4],
    [13_999, 29],
    [14_000, 30],
    [10_000_000, 30],
  ];
  for (const [position, seconds] of expected)
    expect([position, pollAfterSeconds(position)]).toEqual([position, seconds]);
});

test('stays within its bounds, and never makes a user poll less often than users behind', () => {
  fc.assert(
    fc.property(fc.nat(20_000_000), fc.nat(1_000_000), (position, further) => {
      const seconds = pollAfterSeconds(position);
      expect(Number.isInteger(seconds) && seconds >= POLL_MIN_SECONDS && seconds <= POLL_MAX_SECONDS).toBe(true);
      expect(pollAfterSeconds(position + further)).toBeGreaterThanOrEqual(seconds);
    }),
  );
});
