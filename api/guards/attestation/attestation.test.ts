import { createSecretKey } from 'node:crypto';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Attestation } from './attestation.js';

const older = { id: 'a0', key: createSecretKey(Buffer.alloc(32, 1)) };
const newer = { id: 'a1', key: createSecretKey(Buffer.alloc(32, 2)) };
const attestation = new Attestation([newer, older]);

test('accepts its own tokens, for their device and expiry only', () => {
  const token = attestation.sign('phone', 1_719_000_030);
  expect(attestation.isGenuine(token, 'phone', 1_719_000_030)).toBe(true);
  expect(attestation.isGenuine(token, 'pad', 1_719_000_030)).toBe(false);
  expect(attestation.isGenuine(token, 'phone', 1_719_000_031)).toBe(false);
  expect(attestation.isGenuine(token, 'phone:1', 719_000_030)).toBe(false);
});

test('signs with the first key and still verifies tokens of older keys', () => {
  expect(attestation.sign('phone', 1)).toMatch(/^a1\.[A-Za-z0-9_-]{43}$/);
  expect(attestation.isGenuine(new Attestation([older]).sign('phone', 1), 'phone', 1)).toBe(true);
  expect(new Attestation([older]).isGenuine(attestation.sign('phone', 1), 'phone', 1)).toBe(false);
  const otherKey = new Attestation([{ id: 'a1', key: createSecretKey(Buffer.alloc(32, 3)) }]);
  expect(otherKey.isGenuine(attestation.sign('phone', 1), 'phone', 1)).toBe(false);
});

test('rejects invented and changed tokens', () => {
  const token = attestation.sign('phone', 1);
  for (const forged of [
    '',
    '.',
    'a1',
    'a1.',
    '.x',
    token.slice(0, -2),
    `${token.slice(0, 3)}AAAA${token.slice(7)}`,
    token.replace('a1', 'a0'),
    token.replace('a1', 'a9'),
  ]) {
    expect([forged, attestation.isGenuine(forged, 'phone', 1)]).toEqual([forged, false]);
  }
  fc.assert(fc.property(fc.string({ maxLength: 100 }), (text) => !attestation.isGenuine(text, 'phone', 1)));
});

test('requires at least one key', () => {
  expect(() => new Attestation([])).toThrow('at least one');
});
