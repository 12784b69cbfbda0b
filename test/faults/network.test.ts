import { expect, test } from '@jest/globals';
import { EngineProxy } from '../harness/proxy.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const stage = await Stage.set();
const toRedis = await EngineProxy.before(stage.redis.port);
const toPostgres = await EngineProxy.before(stage.postgres.port);
const through = (url: string, port: number) => Object.assign(new URL(url), { port: String(port) }).href;
await stage.apis[0]!.stop();
await stage.workers[0]!.stop();
stage.env.REDIS_URL = through(stage.redis.url, toRedis.port);
stage.env.DATABASE_URL = through(stage.postgres.url, toPostgres.port);
await stage.startWorker();
await stage.startApi();
await stage.ready();

test('a network to Redis that swallows everything is answered for within two seconds, and all is well afterwards', async () => {
  const product = await stage.openCampaign();
  const crowd = stage.crowd(product);
  crowd.start();
  await until('half of the units are gone', () => crowd.completed.length >= 250, 20_000);
  const told = crowd.told.length;
  toRedis.swallow();
  await until('people are refused', () => crowd.refused > 200, 20_000);
  expect(crowd.told.length).toBeLessThan(told + 1_000);
  toRedis.forward();
  expect(await stage.ready()).toBeLessThan(5_000);
  await until('everything is sold', () => crowd.completed.length >= 500, 20_000);
  await crowd.finish();
  expect(crowd.slowestMs).toBeLessThan(2_000);
  await stage.expectNothingLost(crowd, product);
});

test('a network to Postgres that swallows everything does not stop the sale', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 100, 20_000);
  toPostgres.swallow();
  const before = crowd.completed.length;
  await until('the sale goes on without Postgres', () => crowd.completed.length >= before + 1_000, 20_000);
  toPostgres.forward();
  await crowd.finish();
  expect(crowd.refused).toBe(0);
  await stage.expectNothingLost(crowd, product);
});
