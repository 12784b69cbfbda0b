import { expect, test } from '@jest/globals';
import { Worker } from 'bullmq';
import { SWEEP_NAMES } from '../../shared/contracts/jobs.js';
import { JobQueues } from '../../shared/queues/queues.js';
import { connectForJobs } from '../../shared/redis/connections.js';
import { bullmqPrefix } from '../../shared/redis/keys.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator } from '../harness/clients.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

/** What an operator, a dead worker or a defect of BullMQ can do to the queues. */
const stage = await Stage.set({}, { onServer: true });
const redis = stage.connectToRedis();
const server = { connection: connectForJobs(stage.redis.url, () => {}), shardPrefix: '' };
const queues = new JobQueues([server], () => {}, { queueJobs: 1_000, checkJobEveryMs: 4_000 });
atEnd('the queues', async () => {
  await queues.close();
  server.connection.disconnect();
});

type BoardQueue = { name: string; counts: Record<string, number>; jobs: Record<string, unknown>[] };

const queueOf = (name: string) => queues.all().find(({ queue }) => queue.name === name)!.queue;
const backlog = () => redis.xlen('db1:journal');
const expired = async (product: string) => {
  const [row] = await stage.query<{ n: number }>(
    `select count(*)::int as n from redemptions r join campaigns using (campaign_id)
     where product_id = $1 and r.status = 'expired'`,
    [product],
  );
  return row?.n ?? 0;
};

test('a worker that is killed with the active job is replaced by another', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  await stage.startWorker();
  const crowd = stage.crowd(product, 50);
  crowd.start();
  for (let round = 0; round < 3; round += 1) {
    const active = async () => (await queueOf('persist').getJobs(['active']))[0]?.processedBy;
    const name = await until('a job is active', active);
    const killed = stage.workers.find(({ child }) => name.includes(`-${child.pid}-`) && child.exitCode === null)!;
    await killed.kill();
    await until('entries wait', async () => (await backlog()) > 0);
    const [entry] = await redis.xrange('db1:journal', '-', '+', 'COUNT', 1);
    await until('another worker has written them', async () => {
      const [first] = await redis.xrange('db1:journal', '-', '+', 'COUNT', 1);
      return first?.[0] !== entry?.[0];
    });
    await stage.startWorker();
  }
  await crowd.finish();
  stage.expectServed(crowd);
  await stage.expectNothingLost(crowd, product);
});

test('queues that are emptied again and again under load lose nothing', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const short = await stage.openCampaign({ total_limit: 1, hold_seconds: 1 });
  const holders = stage.crowd(short, 20);
  holders.start();
  const crowd = stage.crowd(product, 50);
  crowd.start();
  for (let round = 0; round < 10; round += 1) {
    const sold = crowd.completed.length;
    for (const { queue } of queues.all()) {
      // A worker resumes a queue that it finds paused, and then obliterate refuses.
      await queue.obliterate({ force: true }).catch(() => {});
    }
    await until('the sale goes on', () => crowd.completed.length >= sold + 20);
  }
  await holders.finish();
  await crowd.finish();
  const before = await expired(short);
  await until('holds end', async () => (await expired(short)) > before);
  await until('the sweeps have their jobs again', async () => {
    const jobs = await Promise.all(SWEEP_NAMES.map((name) => queueOf('sweeps').getJob(name)));
    // No one has set up Web Push.
    return jobs.filter(Boolean).length === SWEEP_NAMES.length - 1;
  });
  await stage.expectNothingLost(crowd, product);
  await stage.expectNothingLost(holders, short);
});

test('queues that an operator pauses go on', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  for (const { queue } of queues.all()) await queue.pause();
  const crowd = stage.crowd(product, 100);
  crowd.start();
  await until('people buy', () => crowd.completed.length >= 50);
  await crowd.finish();
  await until('no queue is paused', async () => {
    const paused = await Promise.all(queues.all().map(({ queue }) => queue.isPaused()));
    return !paused.includes(true);
  });
  await stage.expectNothingLost(crowd, product);
});

test('the dashboard says what waits and why while Postgres is away', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const operator = new Operator(stage.url);
  stage.postgres.kill('SIGQUIT');
  await stage.postgres.exited;
  const crowd = stage.crowd(product, 100);
  crowd.start();
  await until('people buy', () => crowd.completed.length >= 100);
  await crowd.finish();
  const shown = await until('the job waits with its reason', async () => {
    const { body } = await operator.call('GET', '/admin/queues/api/queues?activeQueue=persist&status=delayed');
    const persist = (body.queues as BoardQueue[]).find(({ name }) => name === 'persist')!;
    const [job] = persist.jobs;
    // It is tried again and again: the counts may be of the moment before.
    const isDelayed = persist.counts.delayed === 1 && persist.counts.active === 0;
    return isDelayed && /entries wait/.test(String(job?.progress)) && { counts: persist.counts, jobs: persist.jobs };
  });
  expect(shown.jobs).toMatchObject([
    {
      name: 'Write the journal of shard 0 to Postgres',
      progress: expect.stringMatching(/^[\d,]+ entr(y waits|ies wait), the oldest for \d+ s$/),
      failedReason: expect.stringMatching(/^Postgres is away: /),
      stacktrace: [],
    },
  ]);
  expect(shown.counts).toMatchObject({ waiting: 0, active: 0, delayed: 1, failed: 0 });
  await until('the metrics have it as delayed', async () => {
    const metrics = await (await fetch(`${stage.url}/metrics`)).text();
    return /doorbuster_queue_jobs{queue="persist",state="delayed"} 1/.test(metrics);
  });
  const ready = (await (await fetch(`${stage.url}/readyz`)).json()) as { data: unknown };
  expect(ready.data).toMatchObject({ status: 'ready', degraded: ['postgres'] });
  await stage.startPostgres();
  await until('everything is written', async () => (await backlog()) === 0);
  // The feeder may have persisted the last entries without the job, which waits until it is tried again.
  await until('no job waits', async () => {
    const retried = await operator.call('POST', '/admin/jobs/persist/retry');
    expect(retried).toMatchObject({ status: 200, data: { queue: 'persist', jobs: expect.any(Number) } });
    return retried.data.jobs === 0;
  });
  expect((await operator.call('POST', '/admin/jobs/nothing/retry')).status).toBe(400);
  await stage.expectNothingLost(crowd, product);
});

test('a queue whose jobs never end holds nothing up', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const short = await stage.openCampaign({ total_limit: 1, hold_seconds: 1 });
  const running = stage.workers.filter(({ child }) => child.exitCode === null && child.signalCode === null);
  for (const worker of running) await worker.kill();
  // Take the jobs of both queues while no worker is there, and keep them.
  const never = new Promise<never>(() => {});
  for (const name of ['persist', 'expire'] as const) {
    // With the longest lock that workers do not shorten.
    const thief = new Worker(name, () => never, {
      connection: server.connection,
      prefix: bullmqPrefix(''),
      name: 'a defect',
      lockDuration: 8_000,
      lockRenewTime: 2_000,
      // Takes the jobs of the workers that were killed soon.
      stalledInterval: 500,
      maxStalledCount: 1_000,
    });
    atEnd('a thief', () => thief.close(true));
  }
  await queues.add('persist', { shard: 0, upTo: '0-0' });
  await queues.add('expire', { shard: 0, products: [] });
  await until('they have the jobs', async () => {
    const jobs = await Promise.all(['persist', 'expire'].map((name) => queueOf(name).getJobs(['active'])));
    return jobs.every(([job]) => job?.processedBy === 'a defect');
  });
  await stage.startWorker();
  const crowd = stage.crowd(product, 100);
  crowd.start();
  const holders = stage.crowd(short, 20);
  holders.start();
  await until('people buy', () => crowd.completed.length >= 500);
  await holders.finish();
  await crowd.finish();
  await until('everything is written', async () => (await backlog()) === 0);
  const before = await expired(short);
  await until('holds end', async () => (await expired(short)) > before);
  await stage.expectNothingLost(crowd, product);
  const jobs = await Promise.all(['persist', 'expire'].map((name) => queueOf(name).getJobs(['active'])));
  expect(jobs.map(([job]) => job?.processedBy)).toEqual(['a defect', 'a defect']);
  await stage.expectNothingLost(holders, short);
});
