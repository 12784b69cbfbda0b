import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { runEvery, untilNext } from './shared-interval.js';

beforeEach(() => {
  jest.useFakeTimers({ now: 0 });
});
afterEach(() => {
  jest.useRealTimers();
});

test('loops that began at different moments run at the same ones', () => {
  const at: Record<string, number[]> = { a: [], b: [] };
  const run = (name: string) => () => at[name]?.push(performance.now() % 500);
  jest.advanceTimersByTime(untilNext(500) + 130);
  const ends = [runEvery(500, run('a'))];
  jest.advanceTimersByTime(217);
  ends.push(runEvery(500, run('b')));
  jest.advanceTimersByTime(1_653);
  expect(at).toEqual({ a: [0, 0, 0, 0], b: [0, 0, 0, 0] });
  for (const end of ends) end();
  jest.advanceTimersByTime(5_000);
  expect(at.a).toHaveLength(4);
});

test('a timer that fires a little early does not run twice', () => {
  jest.advanceTimersByTime(untilNext(500) + 499);
  expect(untilNext(500)).toBe(501);
});
