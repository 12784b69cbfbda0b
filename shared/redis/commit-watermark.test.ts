import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { CommitWatermark } from './commit-watermark.js';

test('a newer history ends the waits for entries of older ones, and no wait for its own', async () => {
  const commits = new CommitWatermark(new Redis({ lazyConnect: true }), 10);
  const [older, own] = [commits.committed('6-1', 60_000), commits.committed('7-1', 60_000)];
  commits.abandonBefore(7);
  expect(await older).toBe(false);
  commits.heard('7-1');
  expect(await own).toBe(true);
});
