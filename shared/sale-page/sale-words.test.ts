import { expect, test } from '@jest/globals';
import { zoneName } from './sale-words.js';

test('names a time zone for all seasons, because a sale may be in another one', () => {
  expect(zoneName('en', 'Europe/Berlin')).toBe('Central European Time');
  expect(zoneName('en', 'Asia/Jakarta')).toBe('Western Indonesia Time');
  expect(zoneName('id', 'Asia/Jakarta')).toBe('Waktu Indonesia Barat');
  expect(zoneName('en', 'UTC')).toBe('Coordinated Universal Time');
  expect(zoneName('en', 'Etc/GMT-3')).toBe('GMT+03:00');
});
