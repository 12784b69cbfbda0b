import { expect, test } from '@jest/globals';
import { ofHistory } from './of-history.js';

test('a cache is forgotten once when a history has ended', () => {
  let [name, forgotten] = ['1', 0];
  const history = ofHistory(
    () => name,
    () => {
      forgotten += 1;
    },
  );
  expect([history(), history(), forgotten]).toEqual(['1', '1', 1]);
  name = '2';
  expect([history(), history(), forgotten]).toEqual(['2', '2', 2]);
});
