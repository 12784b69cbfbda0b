import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { Problem } from '../../shared/errors/catalogue.js';
import { externalId, isoTime, note } from './fields.js';
import { validate } from './validate.js';

const schema = z.object({
  user: externalId,
  why: note.optional(),
  at: isoTime.optional(),
  list: z.array(z.object({ 'a/b~c': z.int() })).optional(),
});

function pointersOf(value: unknown): unknown[] {
  try {
    validate(schema, value);
    return [];
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'invalid_request') throw error;
    return ((error.extras.members?.errors ?? []) as { pointer: string }[]).map(({ pointer }) => pointer);
  }
}

test('returns the valid fields and drops unknown ones', () => {
  expect(validate(schema, { user: 'ann', more: 1 })).toEqual({ user: 'ann' });
});

test('points to each field that is wrong', () => {
  expect(pointersOf({ user: 'a b', why: 7, at: 'tomorrow' })).toEqual(['#/user', '#/why', '#/at']);
  expect(pointersOf({})).toEqual(['#/user']);
  for (const value of [null, undefined, 'x', 7, []]) expect(pointersOf(value)).toEqual(['#']);
});

test('writes pointers as RFC 6901 has them', () => {
  expect(pointersOf({ user: 'ann', list: [{ 'a/b~c': 1 }, { 'a/b~c': 'x' }] })).toEqual(['#/list/1/a~1b~0c']);
});

test('lists no more than twenty mistakes', () => {
  expect(pointersOf({ user: 'ann', list: Array.from({ length: 50 }, () => ({})) }).length).toBe(20);
});

test('keeps control characters and endless text out of records', () => {
  expect(pointersOf({ user: 'ann', why: 'because, “ünïcödé” 🙂' })).toEqual([]);
  for (const why of ['a\0b', 'a\nb', 'a\u009bb', 'x'.repeat(257)])
    expect(pointersOf({ user: 'ann', why })).toEqual(['#/why']);
});

test('takes times with a zone only', () => {
  for (const at of ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00.123+02:00'])
    expect(pointersOf({ user: 'ann', at })).toEqual([]);
  for (const at of ['2026-01-01', '2026-01-01T00:00:00', '2026-13-01T00:00:00Z', '1767225600'])
    expect([at, pointersOf({ user: 'ann', at })]).toEqual([at, ['#/at']]);
});
