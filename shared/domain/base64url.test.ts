import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { decodeBase64url } from './base64url.js';

test('decodes what was encoded', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(decodeBase64url(Buffer.from(bytes).toString('base64url'))).toEqual(Buffer.from(bytes));
    }),
  );
});

test('accepts only one text for each value', () => {
  for (const text of ['AQ==', 'AR', 'AQ!', 'AQ!!!', ' AQ', 'AQ\n', '-_+/', '+/', 'A', 'AQ.'])
    expect([text, decodeBase64url(text)]).toEqual([text, null]);
});
