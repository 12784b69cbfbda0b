import { expect, test } from '@jest/globals';
import { assertNever } from './assert-never.js';
import { timeOrNull } from './time.js';

test('writes milliseconds as a time in UTC, and none as null', () => {
  expect(timeOrNull(1_719_000_030_123)).toBe('2024-06-21T20:00:30.123Z');
  expect(timeOrNull(0)).toBeNull();
});

test('throws on an unhandled case', () => {
  expect(() => assertNever({ kind: 'new' } as never)).toThrow('unhandled case: {"kind":"new"}');
});
