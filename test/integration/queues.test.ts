import { describe, expect, it } from '@jest/globals';
import type { Worker } from 'bullmq';
import { type JobData, type QueueName, wordsOf } from '../../shared/contracts/jobs.js';
import { dueMs, type Processor, RunAgain, type RunningJob, startJobWorker } from '../../shared/queues/job-worker.js';
import { QueueUpkeep } from '../../shared/queues/queue-upkeep.js';
import { JobQueues, type QueueServer } from '../../shared/queues/queues.js';
import { connectForJobs } from '../../shared/redis/connections.js';
import { Sweeps } from '../../worker/sweeps/sweeps.js';
import { atEnd } from '../harness/cleanup.js';
import { startTestRedis } from '../harness/engines.js';
import { HOUR_MS, laterBy } from '../harness/moved-clock.js';
import { until } from '../harness/until.js';

const engine = await startTestRedis();

function server(): QueueServer {
  const connection = connectForJobs(engine.url, () => {});
  atEnd('a connection', () => connection.disconnect());
  return { connection, shardPrefix: engine.prefix };
}

const onError = (_queue: string, error: Error) => {
  throw error;
};
/** Queues of two shards, which are one server here. */
const queues = new JobQueues([server(), { ...server(), shardPrefix: `${engine.prefix}{1}` }], onError, {
  queueJobs: 5,
  checkJobEveryMs: 0,
});
atEnd('the queues', () => queues.close());
const queueOf = (name: QueueName, shard = 0) =>
  queues.all().find((one) => one.name === name && one.shard === shard)!.queue;
const stateOf = async (queue: string) => (await queues.states(Date.now())).find((state) => state.queue === queue)!;

function work<Name extends QueueName>(name: Name, processor: Processor<Name>, concurrency = 1): Worker {
  const options = { shard: 0, concurrency, processName: 'test' };
  const ignore = { failed: () => {}, error: () => {}, full: () => {} };
  const worker = startJobWorker(name, processor, server(), options, ignore);
  atEnd('a worker', () => worker.close());
  return worker;
}

/** A processor that waits until the test lets it end. */
function blocked<Name extends QueueName>(): { run: Processor<Name>; ran: JobData<Name>[]; release: () => void } {
  const ran: JobData<Name>[] = [];
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const run = (async (data: JobData<Name>) => {
    ran.push(data);
    await released;
  }) as unknown as Processor<Name>;
  return { run, ran, release };
}

function upkeep(longestDelayMs = 1_000) {
  const repairs: string[] = [];
  return {
    repairs,
    run: () =>
      new QueueUpkeep(
        queues,
        () => longestDelayMs,
        (queue, repair) => repairs.push(`${queue}: ${repair}`),
      ).run(0),
  };
}

describe('JobQueues', () => {
  it('keeps one active job and one next job for an endpoint, however many are added', async () => {
    const { run, ran, release } = blocked<'deliver'>();
    for (let i = 0; i < 50; i += 1) await queues.add('deliver', { endpointId: 'hangs' });
    expect(await stateOf('deliver')).toMatchObject({ waiting: 1, active: 0 });
    work('deliver', run, 3);
    await until('it runs', () => ran.length === 1);
    for (let i = 0; i < 500; i += 1) await queues.add('deliver', { endpointId: 'hangs' });
    expect(await stateOf('deliver')).toMatchObject({ waiting: 0, active: 1 });
    release();
    await until('the next one has run', () => ran.length === 2);
    await until('nothing is left', async () => (await stateOf('deliver')).active === 0);
    expect(ran.length).toBe(2);
  });

  it('drops a job that is added during a run that finds its work again', async () => {
    const { run, ran, release } = blocked<'expire'>();
    work('expire', run);
    await queues.add('expire', { shard: 0, products: ['one'] });
    await until('it runs', () => ran.length === 1);
    await queues.add('expire', { shard: 0, products: ['two'] });
    release();
    await until('it has ended', async () => (await stateOf('expire')).active === 0);
    expect([await stateOf('expire'), ran.length]).toMatchObject([{ waiting: 0 }, 1]);
  });

  it('takes no job when it is full', async () => {
    const added: (string | null)[] = [];
    for (let i = 0; i < 5; i += 1) added.push(await queues.add('promote', { productId: `p${i}` }, 1));
    await until('it is full', async () => (await queues.add('promote', { productId: 'one more' }, 1)) === null);
    expect(added).not.toContain(null);
    expect((await stateOf('promote-1')).waiting).toBeGreaterThanOrEqual(5);
    await queueOf('promote', 1).obliterate({ force: true });
  });

  it('has a queue for each shard where the work is that of a shard', () => {
    const names = queues.all().map(({ queue }) => queue.name);
    expect(names).toEqual(
      expect.arrayContaining(['persist', 'persist-1', 'expire', 'expire-1', 'promote', 'promote-1', 'deliver']),
    );
    expect(names).not.toContain('deliver-1');
  });

  it('tells the reason and the age of a job that fails', async () => {
    const worker = work('reconcile', () => Promise.reject(new Error('not now')));
    await queues.add('reconcile', { productId: 'sneaker' });
    // While it is tried again it does not wait, and has neither.
    const failed = await until('it has failed', async () => {
      const state = await stateOf('reconcile');
      return state.reason === 'not now' && state;
    });
    expect(failed.oldestSeconds).toBeGreaterThanOrEqual(0);
    await worker.close();
    await queueOf('reconcile').obliterate({ force: true });
  });
});

describe('a queue of which parts were deleted', () => {
  it('takes a job for work whose job is in no list any more', async () => {
    const { run, ran, release } = blocked<'reconcile'>();
    const first = work('reconcile', run);
    await queues.add('reconcile', { productId: 'lost' });
    await until('it runs', () => ran.length === 1);
    await engine.client.del(queueOf('reconcile').toKey('active'));
    await first.close(true);
    const again: unknown[] = [];
    const second = work('reconcile', async (data) => {
      again.push(data);
      return null;
    });
    await until('it runs again', async () => {
      await queues.add('reconcile', { productId: 'lost' });
      return again.length > 0;
    });
    expect(again[0]).toEqual({ productId: 'lost' });
    release();
    await second.close();
  });

  it('takes the jobs of sweeps again as soon as one is missing', async () => {
    const patient = new JobQueues([server()], onError, { queueJobs: 5, checkJobEveryMs: HOUR_MS });
    atEnd('more queues', () => patient.close());
    const queue = queueOf('sweeps');
    await patient.addMissing(['codes', 'prune']);
    const { id } = (await queue.getJob('codes'))!;
    await queue.remove('prune');
    await patient.addMissing(['codes', 'prune']);
    expect([id, (await queue.getJob('prune'))?.id]).toEqual(['codes', 'prune']);
    // None is missing, so that nothing is added: BullMQ would write an event about the duplicate.
    const events = () => engine.client.xlen(queue.toKey('events'));
    const before = await events();
    await patient.addMissing(['codes', 'prune']);
    expect(await events()).toBe(before);
    await queue.obliterate({ force: true });
  });

  it('takes a job for a sweep whose job has ended and stayed', async () => {
    const queue = queueOf('sweeps');
    await queue.add('sweeps', {}, { jobId: 'publish', removeOnComplete: false, removeOnFail: false, attempts: 1 });
    const ran: unknown[] = [];
    const worker = work('sweeps', async (data) => void ran.push(data));
    await until('it has failed', async () => (await queue.getJobState('publish')) === 'failed');
    await until('the sweep runs', async () => {
      await queues.add('sweeps', { sweep: 'publish' });
      return ran.length > 0;
    });
    // The loop may have added it once more.
    expect(ran[0]).toEqual({ sweep: 'publish' });
    await worker.close();
  });
});

describe('a job that something else has added', () => {
  it('fails once and does not stay, and has words for the dashboard', async () => {
    const ran: unknown[] = [];
    const worker = work('promote', async (data) => {
      ran.push(data);
      return { promoted: 0 };
    });
    const queue = queueOf('promote');
    await queues.add('promote', { productId: 'sneaker' });
    for (const data of [null, {}, { productId: 7 }, 'text', []]) await queue.add('promote', data);
    await until('the usable one has run', () => ran.length === 1);
    await until('none waits', async () => (await stateOf('promote')).waiting + (await stateOf('promote')).active === 0);
    expect([ran, (await stateOf('promote')).delayed]).toEqual([[{ productId: 'sneaker' }], 0]);
    expect([null, {}, 'text'].map((data) => wordsOf('promote', data))).toEqual(
      Array(3).fill('A job with data that cannot be used'),
    );
    await worker.close();
  });
});

describe('QueueUpkeep', () => {
  it('brings a job forward that was put off by a clock that was ahead', async () => {
    const ahead = work('codes', () => Promise.reject(new Error('not yet')));
    await laterBy(HOUR_MS, async () => {
      await queues.add('codes', { jobId: 'one' });
      await until('it waits for its second try', async () => (await stateOf('codes')).delayed === 1);
      // A job that it takes meanwhile is delayed again before this worker has ended.
      await ahead.close();
    });
    let tries = 0;
    work('codes', async () => {
      tries += 1;
    });
    const { run, repairs } = upkeep();
    await until('it runs', async () => {
      await run();
      return tries > 0;
    });
    await until('it is reported', () => repairs.includes('codes: jobs brought forward'));
    await until('it is done', async () => (await stateOf('codes')).delayed === 0);
  });

  it('resumes a queue that was paused', async () => {
    await queueOf('promote').pause();
    const { run, repairs } = upkeep();
    await run();
    await run();
    expect(await queueOf('promote').isPaused()).toBe(false);
    expect(repairs).toEqual(['promote: resumed']);
  });

  it('shortens locks that a clock of Redis which went back has made long', async () => {
    const { run: hold, ran, release } = blocked<'persist'>();
    const dead = work('persist', hold);
    await queues.add('persist', { shard: 0, upTo: '1-0' });
    await until('it runs', () => ran.length === 1);
    // The worker is gone, and its lock lives an hour by the clock of Redis.
    await dead.close(true);
    const queue = queueOf('persist');
    const [active] = await engine.client.lrange(queue.toKey('active'), 0, 0);
    await engine.client.set(`${queue.toKey(String(active))}:lock`, 'dead', 'PX', HOUR_MS);
    await engine.client.set(queue.toKey('stalled-check'), '1', 'PX', HOUR_MS);
    let taken = 0;
    work('persist', async () => {
      taken += 1;
      return { entries: 0, batches: 0 };
    });
    const { run, repairs } = upkeep();
    await run();
    expect(repairs).toEqual(['persist: lock shortened']);
    await until('another worker runs it', () => taken === 1);
    release();
  });
});

it('jobs that run again after a second or more begin with a second', () => {
  expect([dueMs(5_040, 1_000), dueMs(5_040, 5_000), dueMs(5_960, 2_000)]).toEqual([6_000, 10_000, 8_000]);
  // One that has taken longer than half a second skips a second.
  expect([dueMs(5_700, 1_000), dueMs(5_040, 500)]).toEqual([7_000, 5_540]);
});

describe('Sweeps', () => {
  const table = (run: () => Promise<void>, everyMs = 20) => {
    const none = { schedule: null, publish: null, codes: null, archive: null, reconcile: null };
    return new Sweeps({ ...none, minutes: null, payments: null, erasures: null, push: null, prune: { everyMs, run } });
  };
  const job: Pick<RunningJob, 'hasFailed'> = { hasFailed: false };

  it('runs a sweep again and again, in one worker at a time, and again after a failure', async () => {
    let [runs, atOnce, most] = [0, 0, 0];
    const sweeps = table(async () => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      runs += 1;
      await new Promise((resolve) => setTimeout(resolve, 5));
      atOnce -= 1;
      if (runs === 3) throw new Error('once');
    });
    const workers = [1, 2].map(() => work('sweeps', ({ sweep }, running) => sweeps.run(sweep, running), 9));
    // As the upkeep of each worker does.
    await until('it has run often', async () => {
      for (const name of sweeps.names) await queues.add('sweeps', { sweep: name });
      return runs >= 8;
    });
    expect(most).toBe(1);
    await queueOf('sweeps').obliterate({ force: true });
    const before = runs;
    await until('it runs again after its queue was emptied', async () => {
      await queues.add('sweeps', { sweep: 'prune' });
      return runs > before + 1;
    });
    await Promise.all(workers.map((worker) => worker.close()));
  });

  it('ends the job of a sweep that failed before, so that its reason does not stay', async () => {
    const sweeps = table(async () => {});
    expect(await sweeps.run('prune', job)).toEqual(new RunAgain(20));
    expect(await sweeps.run('prune', { hasFailed: true })).toBeUndefined();
    expect(await sweeps.run('push', job)).toBeUndefined();
  });

  it('runs without a job at its interval at most', async () => {
    let runs = 0;
    const sweeps = table(async () => {
      runs += 1;
    }, HOUR_MS);
    await sweeps.runDirectly('prune');
    await sweeps.runDirectly('prune');
    await sweeps.runDirectly('push');
    expect(runs).toBe(1);
  });
});
