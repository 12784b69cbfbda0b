import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { Problem } from '../../shared/errors/catalogue.js';
import { idempotencyKey, optionalIdempotencyKey } from './idempotency-key.js';

const asking = (header?: string) =>
  ({ headers: header === undefined ? {} : { 'idempotency-key': header } }) as unknown as Request;

function pointerOf(attempt: () => unknown): unknown {
  try {
    return attempt();
  } catch (error) {
    if (error instanceof Problem && error.code === 'invalid_request')
      return (error.extras.members?.errors as { pointer: string }[] | undefined)?.[0]?.pointer;
    throw error;
  }
}

test('reads the key from the header, bare or quoted, or from the body, and returns its source', () => {
  expect(idempotencyKey(asking('key-12345'), undefined)).toEqual({ key: 'key-12345', from: 'header' });
  expect(idempotencyKey(asking('"key-12345"'), undefined)).toEqual({ key: 'key-12345', from: 'header' });
  expect(idempotencyKey(asking('  "key-12345" '), undefined)).toEqual({ key: 'key-12345', from: 'header' });
  expect(idempotencyKey(asking(), 'key-12345')).toEqual({ key: 'key-12345', from: 'body' });
  expect(idempotencyKey(asking('"key-12345"'), 'key-12345')).toEqual({ key: 'key-12345', from: 'header' });
});

test('requires a key only where it is not optional', () => {
  expect(optionalIdempotencyKey(asking(), undefined)).toBeNull();
  expect(pointerOf(() => idempotencyKey(asking(), undefined))).toBe('#/idempotency_key');
});

test('refuses two different keys', () => {
  expect(pointerOf(() => idempotencyKey(asking('key-12345'), 'key-54321'))).toBe('#/idempotency_key');
});

test('accepts 8 to 255 characters that need no quoting', () => {
  for (const key of ['12345678', 'x'.repeat(255), 'A.b_c~d:e-f']) expect(idempotencyKey(asking(), key).key).toBe(key);
  for (const key of [
    '',
    '1234567',
    'x'.repeat(256),
    'key 12345',
    'key|12345',
    'key/12345',
    'schlüssel',
    '"key-12345',
    'key-1234\n',
  ]) {
    expect([key, pointerOf(() => idempotencyKey(asking(), key))]).toEqual([key, '#/idempotency_key']);
  }
  for (const key of ['""', '"', 'short', '"key 12345"', 'key-12345, key-54321']) {
    expect([key, pointerOf(() => idempotencyKey(asking(key), undefined))]).toEqual([key, '#/headers/Idempotency-Key']);
  }
});
