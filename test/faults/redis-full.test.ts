import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { RelayLease } from '../../shared/redis/relay-lease.js';
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
  // No worker can take the lease, and each must drain the journal.
  for (const holder of ['one', 'two']) expect(await new RelayLease(redis, holder).hold()).toBe(true);
  await redis.config('SET', 'maxmemory', '0');
  await until('a checkout succeeds', async () => (await arrive(stage.url, product).checkout()).status === 200);
  await stage.expectNothingLost(crowd, product);
  await until('the worker sweeps', async () => (await redis.exists('db1:s:expire')) === 1);
});
