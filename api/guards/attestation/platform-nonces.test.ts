import { createSecretKey } from 'node:crypto';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { MAX_NONCE_CHARACTERS, PlatformNonces } from './platform-nonces.js';

const older = { id: 'a0', key: createSecretKey(Buffer.alloc(32, 1)) };
const newer = { id: 'a-much-longer-id', key: createSecretKey(Buffer.alloc(32, 2)) };
const what = { product: 'sale', subject: 'phone' };
let now = 1_719_000_000_000;
const nonces = (...keys: (typeof older)[]) => new PlatformNonces(keys, () => now, 300_000);

test('accepts its own nonces, for one device and campaign, until they expire', () => {
  const { nonce, expiresAt } = nonces(newer).make(what);
  expect(nonce.length).toBeLessThanOrEqual(MAX_NONCE_CHARACTERS);
  expect(expiresAt).toBe(1_719_000_300);
  expect(nonces(newer).isValid(nonce, what)).toBe(true);
  expect(nonces(newer).isValid(nonce, { ...what, subject: 'pad' })).toBe(false);
  expect(nonces(newer).isValid(nonce, { ...what, product: 'other' })).toBe(false);
  expect(nonces(newer).make(what).nonce).not.toBe(nonce);
  now += 300_000;
  expect(nonces(newer).isValid(nonce, what)).toBe(true);
  now += 1_000;
  expect(nonces(newer).isValid(nonce, what)).toBe(false);
});

test('signs with the first key and still verifies nonces of older keys', () => {
  const { nonce } = nonces(older).make(what);
  expect(nonces(newer, older).isValid(nonce, what)).toBe(true);
  expect(nonces(newer).isValid(nonce, what)).toBe(false);
  expect(nonces(older).isValid(nonces(newer, older).make(what).nonce, what)).toBe(false);
  expect(nonces({ ...older, key: newer.key }).isValid(nonce, what)).toBe(false);
});

test('rejects invented and changed nonces, and other encodings of a nonce', () => {
  const { nonce } = nonces(older).make(what);
  for (let at = 0; at < nonce.length; at += 1) {
    const other = `${nonce.slice(0, at)}${nonce[at] === 'B' ? 'C' : 'B'}${nonce.slice(at + 1)}`;
    expect([at, nonces(older).isValid(other, what)]).toEqual([at, false]);
  }
  for (const text of ['', 'A', `${nonce}A`, `${nonce}=`, nonce.slice(0, -1)])
    expect([text, nonces(older).isValid(text, what)]).toEqual([text, false]);
  fc.assert(fc.property(fc.base64String({ maxLength: 120 }), (text) => !nonces(older).isValid(text, what)));
});
