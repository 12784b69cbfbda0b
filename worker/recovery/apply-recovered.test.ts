import { expect, test } from '@jest/globals';
import { isContained } from './apply-recovered.js';

test('an entry is missing unless every later history of its own shard contains it', () => {
  const histories = [
    { generation: 65, afterId: '0-0' },
    { generation: 193, afterId: '65-7' },
    { generation: 257, afterId: '193-4' },
  ];
  const contained = (journalId: string, shard = 1) => isContained(journalId, shard, histories);
  expect([contained('65-7'), contained('65-8'), contained('193-4'), contained('193-5')]).toEqual([
    ...[true, false, true, false],
  ]);
  // Of a shard whose clock was ahead.
  expect([contained('321-1'), contained('322-1'), contained('322-1', 2)]).toEqual([true, false, true]);
});
