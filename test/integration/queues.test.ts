import { expect, test } from '@jest/globals';
import type { QueueName } from '../../shared/contracts/jobs.js';
import { JobQueues, type Processor, startJobWorker } from '../../shared/queues/queues.js';
import { connectForJobs } from '../../shared/redis/connections.js';
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
const queues = new JobQueues(connect(), (_queue, error) => {
  throw error;
});
atEnd('the queues', () => queues.close());

function work<Name extends QueueName>(name: Name, processor: Processor<Name>): void {
  const ignore = { failed: () => {}, error: () => {} };
  const worker = startJobWorker(name, processor, connect(), { concurrency: 1 }, ignore);
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

test('an interval goes on after a clock that was ahead, and one that was behind', async () => {
  let runs = 0;
  work('expire', async () => {
    runs += 1;
  });
  for (const movedMs of [HOUR_MS, -HOUR_MS]) {
    await laterBy(movedMs, async () => {
      await queues.every('expire', 50, {});
      const before = runs;
      await until('it runs by that clock', () => runs > before + 2);
    });
    await queues.every('expire', 50, {});
    const before = runs;
    await until('it goes on', () => runs > before + 2);
  }
});

test('an interval that is planned as it should be is left alone', async () => {
  await queues.every('schedule', 10_000, {});
  const first = await engine.client.zrange('{db1:queues}:schedule:repeat', '0', '-1', 'WITHSCORES');
  expect(first.length).toBe(2);
  await queues.every('schedule', 10_000, {});
  expect(await engine.client.zrange('{db1:queues}:schedule:repeat', '0', '-1', 'WITHSCORES')).toEqual(first);
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
