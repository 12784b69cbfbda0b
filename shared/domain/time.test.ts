import { expect, test } from '@jest/globals';
import { assertNever } from './assert-never.js';
import { timeOrNull } from './time.js';

test('writes milliseconds as a time in UTC, and none as null', () => {
  expect(timeOrNull(1_719_000_030_123)).toBe('2024-06-21T20:00:30.123Z');
  expect(timeOrNull(0)).toBeNull();
});

test('writes every time as the engine does, also where seconds, years and eras change', () => {
  const edges = [
    1, 999, 1_000, 1_719_000_030_000, 1_719_000_030_009, 1_719_000_030_099, 1_719_000_029_999, 253_402_300_800_000, -1,
    -1_000,
  ];
  for (const ms of edges) expect(timeOrNull(ms)).toBe(new Date(ms).toISOString());
});

test('stops at a case that nobody thought of', () => {
  expect(() => assertNever({ kind: 'new' } as never)).toThrow('unhandled case: {"kind":"new"}');
});
