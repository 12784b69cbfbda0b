import { expect, test } from '@jest/globals';
import { Queue } from 'bullmq';
import type { QueueName } from '../../shared/contracts/jobs.js';
import { JobQueues, type Processor, startJobWorker } from '../../shared/queues/queues.js';
import { connectForJobs } from '../../shared/redis/connections.js';
import { bullmqPrefix } from '../../shared/redis/keys.js';
import { atEnd } from '../harness/cleanup.js';
import { startTestRedis } from '../harness/engines.js';
import { HOUR_MS } from '../harness/moved-clock.js';
import { until } from '../harness/until.js';

const engine = await startTestRedis();
const connect = () => {
  const redis = connectForJobs(engine.url, () => {});
  atEnd('a connection', () => redis.disconnect());
  return redis;
};
const queues = new JobQueues(connect(), engine.prefix, (_queue, error) => {
  throw error;
});
atEnd('the queues', () => queues.close());

function work<Name extends QueueName>(name: Name, processor: Processor<Name>): void {
  const ignore = { failed: () => {}, error: () => {} };
  const worker = startJobWorker(name, processor, connect(), { concurrency: 1, shardPrefix: engine.prefix }, ignore);
  atEnd('a worker', () => worker.close());
}

/** This process lives `ms` later, for as long as `run` takes: what BullMQ plans meanwhile it plans by that clock. */
async function laterBy(ms: number, run: () => Promise<void>): Promise<void> {
  const { now } = Date;
  Date.now = () => now() + ms;
  try {
    await run();
  } finally {
    Date.now = now;
  }
}

test('the worker removes the intervals that earlier versions planned, and no other job', async () => {
  const [redis, prefix] = [connect(), bullmqPrefix(engine.prefix)];
  for (const name of ['expire', 'codes']) {
    const queue = new Queue(name, { connection: connect(), prefix });
    atEnd('a queue', () => queue.close());
    await queue.upsertJobScheduler(name, { every: HOUR_MS }, { name, data: {} });
    await queue.add(name, { jobId: 'kept' }, { jobId: 'kept' });
  }
  const planned = async () => [
    await redis.zcard(`${prefix}:expire:repeat`),
    await redis.zcard(`${prefix}:codes:repeat`),
  ];
  expect(await planned()).toEqual([1, 1]);
  await queues.removeIntervals();
  expect(await planned()).toEqual([0, 0]);
  expect(await redis.hget(`${prefix}:codes:kept`, 'data')).toBe('{"jobId":"kept"}');
  expect((await queues.counts('codes')).delayed).toBe(0);
});

test('a job that was put off by a clock that was ahead is tried again', async () => {
  let [tries, refuses] = [0, true];
  work('deliver', async () => {
    tries += 1;
    if (refuses) throw new Error('not yet');
  });
  await laterBy(HOUR_MS, async () => {
    await queues.add('deliver', 'one', { endpointId: 'one' });
    await until('it waits for its second try', async () => (await queues.counts('deliver')).delayed === 1);
  });
  const before = tries;
  refuses = false;
  await until('it runs', async () => {
    await queues.retryNow();
    return tries > before;
  });
  await until('it is done', async () => (await queues.counts('deliver')).delayed === 0);
});
