import { expect, test } from '@jest/globals';
import { Journal } from '../../shared/redis/journal.js';
import { Operator, Shopper } from '../harness/clients.js';
import { HOUR_MS, MovedClock } from '../harness/moved-clock.js';
import { redisSeconds } from '../harness/tokens.js';
import { until } from '../harness/until.js';
import { Stage } from './stage.js';

const clock = new MovedClock();
const stage = await Stage.set(clock.env);
const redis = stage.connectToRedis();

const operator = new Operator(stage.url);
const everybody = () => [stage.apis.at(-1)!, stage.workers.at(-1)!];
const statuses = async (product: string) => {
  const rows = await stage.query<{ status: string; n: number }>(
    'select r.status, count(*)::int as n from redemptions r join campaigns using (campaign_id) where product_id = $1 group by 1',
    [product],
  );
  return Object.fromEntries(rows.map(({ status, n }) => [status, n]));
};
/** How long after its deadline each reservation was ended, ms, by Redis's clock. */
const lateness = async (product: string) =>
  (
    await stage.query<{ ms: number }>(
      `select extract(epoch from r.released_at - r.pay_before)::float8 * 1000 as ms
       from redemptions r join campaigns using (campaign_id) where product_id = $1 and r.status = 'expired'`,
      [product],
    )
  ).map(({ ms }) => ms);

test('clocks of the API and the worker that jump by hours end no promise early and keep none open', async () => {
  const long = await stage.openCampaign({ total_limit: 1_000_000 });
  // One user a second: the line lasts longer than the test on any machine.
  const short = await stage.openCampaign({ total_limit: 1, hold_seconds: 1 });
  const holders = stage.crowd(short, 50);
  holders.start();
  await until('people wait for the short holds', () => holders.queued.length >= 200);
  await holders.finish();
  const crowd = stage.crowd(long, 100);
  crowd.start();
  for (const movedMs of [3 * HOUR_MS, 0, -3 * HOUR_MS, 0]) {
    const sold = crowd.completed.length;
    await until('people are on their way', () => crowd.inFlight > 0);
    await clock.moveUnder(everybody(), movedMs);
    const expired = (await lateness(short)).length;
    await until('the sale goes on', () => crowd.completed.length >= sold + 200);
    await until('units of those who did not pay go on', async () => (await lateness(short)).length > expired);
  }
  await crowd.finish();
  stage.expectServed(crowd);
  await stage.expectNothingLost(crowd, long);
  expect(await statuses(long)).toEqual({ reserved: crowd.completed.length });
  expect(Math.min(...(await lateness(short)))).toBeGreaterThanOrEqual(0);
  await stage.expectNothingLost(holders, short);
  await operator.call('POST', `/admin/campaigns/${short}/close`);
});

test('tokens are issued and judged by the clock of Redis', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000, require_attestation: true });
  for (const movedMs of [3 * HOUR_MS, -3 * HOUR_MS]) {
    await clock.moveUnder(everybody(), movedMs);
    const shopper = new Shopper(stage.url, product);
    const earliest = Math.floor(await redisSeconds(redis)) + 30;
    const token = await shopper.getToken();
    const latest = Math.ceil(await redisSeconds(redis)) + 30;
    expect(token.expires_at).toBeGreaterThanOrEqual(earliest);
    expect(token.expires_at).toBeLessThanOrEqual(latest);
    expect((await shopper.checkout()).data.status).toBe('completed');
  }
  await clock.moveUnder(everybody(), 0);
});

test('what could not be written is written as soon as it can, although the clock went back meanwhile', async () => {
  const product = await stage.openCampaign({ total_limit: 1_000_000 });
  await clock.moveUnder(everybody(), 3 * HOUR_MS);
  stage.postgres.kill('SIGQUIT');
  await stage.postgres.exited;
  const crowd = stage.crowd(product, 200);
  crowd.start();
  await until('people buy', () => crowd.completed.length >= 100);
  await crowd.finish();
  const failures = () => stage.workers[0]!.log.filter((line) => line.includes('persisting failed')).length;
  const before = failures();
  // By then the pause between two attempts is as long as it gets.
  await until('the worker has tried several times', () => failures() >= before + 5);
  await clock.moveUnder(everybody(), 0);
  expect((await new Journal(redis).backlog()).entries).toBeGreaterThanOrEqual(crowd.completed.length);
  await stage.startPostgres();
  await until('the journal is empty', async () => (await redis.xlen('db1:journal')) === 0);
  await stage.expectNothingLost(crowd, product);
});
