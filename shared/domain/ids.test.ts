import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { EXTERNAL_ID_PATTERN, newReservationPrefix, parseReservationId } from './ids.js';

test('accepts only ids of callers that are safe in packed records, keys and URLs', () => {
  for (const id of ['a', 'user-1', 'A.b_c:d@e-f', '0', 'x'.repeat(128)])
    expect(EXTERNAL_ID_PATTERN.test(id)).toBe(true);
  for (const id of ['', 'x'.repeat(129), 'a|b', 'a b', 'a\n', '\na', 'a{b}', 'ä', 'a/b', 'a,b', "a'b", 'a\0']) {
    expect([id, EXTERNAL_ID_PATTERN.test(id)]).toEqual([id, false]);
  }
});

test('a reservation id contains the number of its campaign', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 0xffffffff }), (no) => {
      const id = newReservationPrefix() + no.toString(16).padStart(8, '0');
      expect(parseReservationId(id)).toEqual({ id, campaignNo: no });
    }),
  );
});

test('a reservation id is read in whatever case it was sent', () => {
  const id = `${newReservationPrefix()}0000000f`;
  expect(parseReservationId(id.toUpperCase())).toEqual({ id, campaignNo: 15 });
});

test('prefixes of reservation ids differ and grow', () => {
  const prefixes = Array.from({ length: 10_000 }, newReservationPrefix);
  expect(new Set(prefixes).size).toBe(10_000);
  expect([...prefixes].sort()).toEqual(prefixes);
});

test('detects texts that cannot be reservation ids without a query', () => {
  const good = '01890a5d-ac96-774b-bcce-b302099a8057';
  expect(parseReservationId(good)).not.toBeNull();
  for (const text of [
    '',
    'x',
    good.slice(1),
    `${good}0`,
    ` ${good}`,
    `${good}\n`,
    good.replaceAll('-', ''),
    good.replace('774b', '474b'),
    good.replace('bcce', 'ccce'),
    good.replace('0', 'g'),
    '00000000-0000-0000-0000-000000000000',
  ]) {
    expect([text, parseReservationId(text)]).toEqual([text, null]);
  }
});
