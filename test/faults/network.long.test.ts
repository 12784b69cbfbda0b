import { expect, test } from '@jest/globals';
import { EngineProxy } from '../harness/proxy.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

// Clients of a cluster would go around the proxy, to the addresses that its servers name.
const stage = await Stage.set({}, { onServer: true });
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

test('a network to Redis that swallows everything is answered for with 503 meanwhile, and all is well afterwards', async () => {
  const product = await stage.openCampaign();
  // Those who repeat leave the service time to come back.
  const crowd = stage.crowd(product, 40);
  crowd.start();
  await until('half of the units are gone', () => crowd.completed.length >= 250);
  const told = crowd.told.length;
  await toRedis.swallow();
  await until('people are refused', () => crowd.refused > 200);
  expect(crowd.told.length).toBeLessThan(told + 1_000);
  await toRedis.heal();
  await stage.ready();
  await until('everything is sold', () => crowd.completed.length >= 500);
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
});

test('a network to Postgres that swallows everything does not stop the sale', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 100);
  await toPostgres.swallow();
  const before = crowd.completed.length;
  await until('the sale goes on without Postgres', () => crowd.completed.length >= before + 1_000);
  await toPostgres.heal();
  await crowd.finish();
  stage.expectServed(crowd, 'postgres');
  await stage.expectNothingLost(crowd, product);
});
