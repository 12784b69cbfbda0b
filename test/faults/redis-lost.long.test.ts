import { expect, test } from '@jest/globals';
import pg from 'pg';
import { until } from '../harness/until.js';
import { atThePeak } from './peak.js';
import { Stage } from './stage.js';

const stage = await Stage.set();

test('Redis restarted in order goes on where it was', async () => {
  const product = await stage.openCampaign();
  const crowd = stage.crowd(product);
  crowd.start();
  await atThePeak(crowd);
  await stage.redis.stop();
  await stage.startRedis();
  await until('everything is sold', () => crowd.completed.length >= 500);
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
});

test('SCRIPT FLUSH under load is not noticed by anybody', async () => {
  const product = await stage.openCampaign();
  const redis = stage.connectToRedis();
  const crowd = stage.crowd(product);
  crowd.start();
  await atThePeak(crowd);
  for (let i = 0; i < 20; i += 1) await redis.script('FLUSH');
  await until('everything is sold', () => crowd.completed.length >= 500);
  await crowd.finish();
  stage.expectServed(crowd);
  await stage.expectNothingLost(crowd, product);
});

test.each(['fast', 'durable'])(
  'Redis restarted empty is filled from Postgres, and every %s promise holds',
  async (confirmation) => {
    const product = await stage.openCampaign({ confirmation });
    const crowd = stage.crowd(product);
    crowd.start();
    await atThePeak(crowd);
    stage.redis.kill('SIGKILL');
    await stage.redis.exited;
    await stage.removeRedisData();
    await stage.startRedis();
    await stage.ready();
    await until('everything is sold', () => crowd.completed.length >= 500);
    await crowd.finish();
    expect(crowd.completed.length).toBe(500);
    await stage.expectNothingLost(crowd, product);
  },
);

test('what was told and not yet written when Redis lost its data comes back from the API', async () => {
  const product = await stage.openCampaign();
  const holder = new pg.Client(stage.postgres.url);
  await holder.connect();
  await holder.query('begin');
  await holder.query('select * from journal_cursor for update');
  const crowd = stage.crowd(product);
  crowd.start();
  await atThePeak(crowd);
  const [row] = await stage.query<{ n: string }>(
    'select count(*) as n from redemptions join campaigns using (campaign_id) where product_id = $1',
    [product],
  );
  expect(Number(row?.n)).toBe(0);
  stage.redis.kill('SIGKILL');
  await stage.redis.exited;
  await stage.removeRedisData();
  await holder.query('rollback');
  await holder.end();
  await stage.startRedis();
  await until('everything is sold', () => crowd.completed.length >= 500);
  await crowd.finish();
  expect(crowd.completed.length).toBe(500);
  expect(stage.workers[0]!.log.some((line) => /"recovered":[1-9]/.test(line))).toBe(true);
  await stage.expectNothingLost(crowd, product);
});

test('a Redis that hangs is answered for with 503 while it hangs', async () => {
  const product = await stage.openCampaign();
  const crowd = stage.crowd(product);
  crowd.start();
  await atThePeak(crowd);
  stage.redis.kill('SIGSTOP');
  const refused = crowd.refused;
  await until('people are refused', () => crowd.refused > refused + 50);
  stage.redis.kill('SIGCONT');
  await until('everything is sold', () => crowd.completed.length >= 500);
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
});
