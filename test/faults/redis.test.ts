import { expect, test } from '@jest/globals';
import { until } from '../harness/until.js';
import { atThePeak } from './peak.js';
import { Stage } from './stage.js';

/** Other faults of Redis are in redis-lost.long.test.ts. */
const stage = await Stage.set();

test('Redis killed with -9 and started on its data loses nothing', async () => {
  const product = await stage.openCampaign();
  const crowd = stage.crowd(product);
  crowd.start();
  await atThePeak(crowd);
  stage.redis.kill('SIGKILL');
  await stage.redis.exited;
  await stage.startRedis();
  await stage.ready();
  await until('everything is sold', () => crowd.completed.length >= 500);
  await crowd.finish();
  expect(crowd.told.some(({ tries }) => tries > 1)).toBe(true);
  await stage.expectNothingLost(crowd, product);
});
