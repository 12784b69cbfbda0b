import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { Journal } from '../../shared/redis/journal.js';
import { compareJournalIds } from '../../shared/redis/journal-ids.js';
import { bullmqPrefix } from '../../shared/redis/keys.js';
import { atEnd } from '../harness/cleanup.js';
import { PaymentService, Shopper } from '../harness/clients.js';
import { HOUR_MS, MovedClock } from '../harness/moved-clock.js';
import { ENDS_SOON } from '../harness/redis-client.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const clock = new MovedClock();
const binary = clock.redisBinary();
if (!binary)
  process.stderr.write('test/faults/redis-clock.long.test.ts needs Linux and a C compiler (cc); it is left out\n');
const onMovedClock = binary ? test : test.skip;
// For the servers of a cluster, an hour's jump of their clocks is the failure of all others.
const stage = binary ? await Stage.set({}, { redisBinary: binary, onServer: true }) : (null as unknown as Stage);
const redis = binary ? new Redis(stage.redis.url, ENDS_SOON) : (null as unknown as Redis);
const journal = new Journal(redis);
if (binary) atEnd('a client', () => redis.disconnect());

const redisMs = async () => Number((await redis.time())[0]) * 1000;
const buy = async (product: string) => {
  const shopper = new Shopper(stage.url, product);
  const { data } = await shopper.checkout();
  expect(data.status).toBe('completed');
  return { shopper, data };
};

onMovedClock('a clock of Redis that goes back by an hour under load loses nothing, and deadlines wait', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000, hold_seconds: 10 });
  const crowd = stage.crowd(product, 400);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 300);
  const [before, lastId] = [await redisMs(), await journal.lastId()];
  clock.move(-HOUR_MS);
  expect(await redisMs()).toBeLessThan(before - HOUR_MS / 2);
  // By the old time it is not later than this; TIME is read in whole seconds.
  const moved = (await redisMs()) + HOUR_MS + 1_000;
  const sold = crowd.completed.length;
  await until('the sale goes on', () => crowd.completed.length >= sold + 300);
  await crowd.finish();
  expect(compareJournalIds(await journal.lastId(), lastId)).toBeGreaterThan(0);
  stage.expectServed(crowd);
  await stage.expectNothingLost(crowd, product);
  // Each user who holds a unit by the old time still holds it; those of the new time have ten seconds.
  const later = crowd.completed.filter(({ body }) => Date.parse(body.data.pay_before) >= moved);
  expect(later.length).toBeGreaterThan(0);
  expect(await redis.zcount(`db1:{${product}}:deadlines`, moved, '+inf')).toBe(later.length);
  clock.move(0);
  await until('all have run out', async () => (await redis.zcard(`db1:{${product}}:deadlines`)) === 0);
  await stage.expectNothingLost(crowd, product);
});

onMovedClock('a clock of Redis that goes ahead by an hour ends what is due by it, and the unit goes on', async () => {
  const product = await stage.openCampaign({ total_limit: 1, hold_seconds: 600 });
  const { data } = await buy(product);
  const next = new Shopper(stage.url, product);
  expect((await next.checkout()).data.status).toBe('queued');
  clock.move(HOUR_MS);
  const status = (shopper: Shopper) => shopper.queueStatus({ 'x-ticket': String(shopper.ticket) });
  const promoted = await until('the next one is promoted', async () => {
    const answer = await status(next);
    return answer.data.status === 'promoted' && answer.data;
  });
  expect(Date.parse(promoted.pay_before)).toBeGreaterThan((await redisMs()) + 590_000);
  const payments = new PaymentService(stage.url);
  expect((await payments.confirm(data.reservation_id)).body.code).toBe('reservation_released');
  // Back again: what was promised meanwhile stands, its deadline is further away than it was to be.
  clock.move(0);
  expect((await payments.confirm(promoted.reservation_id)).data.status).toBe('redeemed');
});

onMovedClock('a worker that died before the clock went back is replaced at once', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product, 200);
  crowd.start();
  await until('people buy', () => crowd.completed.length >= 50);
  // Its job is active, and the lock of the job lives an hour longer after the clock went back.
  await stage.workers.at(-1)!.kill();
  clock.move(-HOUR_MS);
  const [job] = await redis.lrange(`${bullmqPrefix('')}:persist:active`, 0, -1);
  const lock = `${bullmqPrefix('')}:persist:${job}:lock`;
  // On a busy machine it has ended before the clock moved.
  if ((await redis.exists(lock)) === 0) await redis.set(lock, 'dead', 'PX', HOUR_MS);
  expect(await redis.pttl(lock)).toBeGreaterThan(HOUR_MS / 2);
  await stage.startWorker();
  await crowd.finish();
  await until('the journal is empty', async () => (await redis.xlen('db1:journal')) === 0);
  await until('the job of the dead worker has ended', async () => {
    const active = await redis.lrange(`${bullmqPrefix('')}:persist:active`, 0, -1);
    return !active.includes(String(job));
  });
  await stage.expectNothingLost(crowd, product);
  clock.move(0);
});
