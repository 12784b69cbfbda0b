import { expect, test } from '@jest/globals';
import { linkText, unitsTexts } from './region-words.js';

test('the numbers of a region are shown, or dashes while they are not known', () => {
  const units = { free: null, held: 1_200, redeemed: 3, waiting: 0 };
  expect(unitsTexts(units)).toEqual(['unlimited', '1,200', '3', '0']);
  expect(unitsTexts(null)).toEqual(['–', '–', '–', '–']);
});

test.each([
  [true, null, 0, 'serves'],
  [true, 'it has not joined', 0, 'does not serve: it has not joined'],
  [false, null, 0.4, 'replies'],
  [false, 'no response in time', 62, 'no reply for 1 min 2 s: no response in time'],
  [false, 'it has not replied yet', null, 'no reply yet: it has not replied yet'],
])('a link is shown in words (own %s, problem %s, age %s)', (own, problem, reply_age_seconds, text) => {
  expect(linkText(own, { problem, reply_age_seconds })).toBe(text);
});
