import { expect, test } from '@jest/globals';
import { placeText, searchesOf } from './redemption-words.js';

test('a typed text is searched in each field that can have it, and in the chosen one alone', () => {
  expect(searchesOf(' ann ', '')).toEqual([
    { user_id: 'ann' },
    { order_id: 'ann' },
    { payment_ref: 'ann' },
    { code: 'ann' },
  ]);
  expect(searchesOf('pi/3 x', '')).toEqual([{ payment_ref: 'pi/3 x' }]);
  expect(searchesOf('SAVE 20', '')).toEqual([{ payment_ref: 'SAVE 20' }, { code: 'SAVE 20' }]);
  expect(searchesOf('ann', 'user_id')).toEqual([{ user_id: 'ann' }]);
  const id = '01A20490-9361-7953-9697-2b6b0000000c';
  expect(searchesOf(id, '')).toEqual([{ reservation_id: id }]);
  expect(searchesOf('  ', '')).toEqual([]);
});

test('a place says its position, if it has one', () => {
  expect(placeText({ status: 'waiting', position: 3 })).toBe('Waiting, position 3');
  expect(placeText({ status: 'waiting', position: null })).toBe('Waiting');
  expect(placeText({ status: 'closed', position: null })).toBe('The line was closed');
});
