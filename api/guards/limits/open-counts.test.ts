import { expect, test } from '@jest/globals';
import { OpenCounts } from './open-counts.js';

test('counts what each network has open, and forgets what is closed', () => {
  const counts = new OpenCounts(2);
  expect(['a', 'a', 'a', 'b'].map((network) => counts.open(network))).toEqual([true, true, false, true]);
  counts.close('a');
  expect([counts.open('a'), counts.open('a')]).toEqual([true, false]);
});
