import { expect, test } from '@jest/globals';
import { countdownOf } from './countdown.js';

test('counts whole seconds, and zero only at the end', () => {
  const cases: [number, string][] = [
    [1, '00:01'],
    [0, '00:00'],
    [-5, '00:00'],
    [61_000, '01:01'],
    [3_600_000, '01:00:00'],
  ];
  for (const [leftMs, clock] of cases) expect(countdownOf(leftMs)).toEqual({ days: 0, clock });
  expect(countdownOf(90_061_000)).toEqual({ days: 1, clock: '01:01:01' });
  expect(countdownOf(12 * 86_400_000)).toEqual({ days: 12, clock: '00:00:00' });
});
