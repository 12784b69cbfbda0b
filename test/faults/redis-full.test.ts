import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { bullmqPrefix, keys } from '../../shared/redis/keys.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const stage = await Stage.set();
const redis = stage.connectToRedis();

async function usedMemory(): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
}

it('a worker starts on a full Redis, stays up and serves when there is memory again', async () => {
  const product = await stage.openCampaign({ total_limit: 100_000 });
  await stage.workers[0]!.kill();
  const crowd = stage.crowd(product, 100);
  crowd.start();
  await until('some are served', () => crowd.completed.length >= 100);
  await crowd.finish();
  await redis.config('SET', 'maxmemory', String((await usedMemory()) - 1_000_000));
  expect((await arrive(stage.url, product).checkout()).status).toBe(503);
  await stage.startWorker();
  const worker = stage.workers[1]!;
  await sleep(3_000);
  expect(worker.child.exitCode).toBeNull();
  // Each queue reports the same trouble once a second, not thousands of times.
  expect(worker.log.length).toBeLessThan(200);
  // No job can be added, so the worker drains the journal without one.
  await until('the journal is drained', async () => (await redis.xlen(keys.journal)) === 0);
  await redis.config('SET', 'maxmemory', '0');
  await until('a checkout succeeds', async () => (await arrive(stage.url, product).checkout()).status === 200);
  await stage.expectNothingLost(crowd, product);
  await until(
    'the sweeps have their jobs',
    async () => (await redis.exists(`${bullmqPrefix('')}:sweeps:schedule`)) === 1,
  );
});
