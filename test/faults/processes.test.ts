import { expect, test } from '@jest/globals';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const stage = await Stage.set();

test('kill -9 of the API at the peak loses nothing, and the clients get their answers from a new one', async () => {
  const product = await stage.openCampaign({ total_limit: 250 });
  const crowd = stage.crowd(product);
  crowd.start();
  await until('half of the units are gone', () => crowd.completed.length >= 125);
  await until('people are on their way', () => crowd.inFlight > 0);
  const inFlight = crowd.inFlight;
  await stage.apis[0]!.kill();
  await stage.startApi();
  await until('everything is sold', () => crowd.completed.length >= 250);
  await crowd.finish();
  expect(inFlight).toBeGreaterThan(0);
  expect(crowd.told.filter(({ tries }) => tries > 1).length).toBeGreaterThan(0);
  expect(crowd.completed.length).toBe(250);
  await stage.expectNothingLost(crowd, product);
});

test('kill -9 of the worker under load loses nothing, and a new one goes on where it was', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product);
  crowd.start();
  for (let kills = 0; kills < 3; kills += 1) {
    const before = crowd.completed.length;
    await until('the sale goes on', () => crowd.completed.length >= before + 100);
    await stage.workers.at(-1)!.kill();
    await stage.startWorker();
  }
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
});

test('an API that is stopped in order drops nobody in flight', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 300);
  await until('people are on their way', () => crowd.inFlight > 0);
  const [stopping, url] = [stage.apis.at(-1)!, stage.url];
  await stage.startApi({ ...stage.env, PORT: '0' });
  const stopped = stopping.stop();
  // As a load balancer does when `/readyz` fails. Connections that the system has taken for a process that ends are reset.
  stage.leaveOut(url);
  await stopped;
  expect(stopping.child.exitCode).toBe(0);
  await until('the sale goes on', () => crowd.completed.length >= 600);
  await crowd.finish();
  expect(crowd.dropped).toBe(0);
  await stage.expectNothingLost(crowd, product);
});

test('an API that is stopped in order keeps its promises until Postgres has them', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const [stopping, frozen, url] = [stage.apis.at(-1)!, stage.workers.at(-1)!, stage.url];
  await until('the campaign is persisted', async () => (await stage.connectToRedis().xlen('db1:journal')) === 0);
  process.kill(frozen.pid, 'SIGSTOP');
  const crowd = stage.crowd(product);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 50);
  await crowd.finish();
  const stopped = stopping.stop();
  await until('it has closed', () =>
    fetch(url).then(
      () => false,
      () => true,
    ),
  );
  await stage.connectToRedis().flushall();
  process.kill(frozen.pid, 'SIGCONT');
  await stopped;
  expect(stopping.child.exitCode).toBe(0);
  await stage.startApi();
  await stage.expectNothingLost(crowd, product);
});

test('a worker that is stopped in order finishes its batch and ends', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  const crowd = stage.crowd(product);
  crowd.start();
  await until('the sale runs', () => crowd.completed.length >= 300);
  const stopping = stage.workers.at(-1)!;
  await stopping.stop();
  expect(stopping.child.exitCode).toBe(0);
  await stage.startWorker();
  await crowd.finish();
  await stage.expectNothingLost(crowd, product);
});
