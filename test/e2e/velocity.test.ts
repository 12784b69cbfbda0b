import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, send } from '../harness/clients.js';
import { startService } from '../harness/service.js';
import { arrive, countStatuses } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await startService({ SHARDS: '2' });
const operator = new Operator(service.url);

/** Without minutes after the opening, so that a test need not wait for their end. */
const open = (terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 1_000, opening_minutes: 0, limits: { unusual_hours: null }, ...terms });
const storm = (product: string, users: number) =>
  Promise.all(Array.from({ length: users }, () => arrive(service.url, product).checkout()));
const get = async (product: string) => (await operator.call('GET', `/admin/campaigns/${product}`)).data;
const alerts = async (outcome: string) => {
  const { text } = await send(`${service.url}/metrics`);
  const line = text.split('\n').find((one) => one.startsWith(`doorbuster_velocity_alerts_total{outcome="${outcome}"`));
  return Number(line?.split(' ').at(-1) ?? 0);
};
const pauseOf = async (product: string) => {
  const { data } = await operator.call('GET', `/admin/overview?campaign=${product}`);
  return (data as { campaigns: { pause: unknown }[] }).campaigns[0]?.pause;
};

test('a campaign that far more users than usual take from is paused, reported, and resumed by an operator only', async () => {
  const product = await open({ velocity: 'pause' });
  const { 200: bought = 0, 503: refused = 0 } = countStatuses(await storm(product, 200));
  expect([bought + refused, bought > 50, bought < 200]).toEqual([200, true, true]);
  await until('it is paused', async () => (await get(product)).status === 'paused');
  expectProblem(await arrive(service.url, product).checkout(), 503, 'campaign_paused');
  await until('it is written', async () => {
    const { rows } = await service.database.client.query(
      `select a.after ->> 'reason' as reason, o.data
       from audit_log a join campaigns c using (campaign_id) join outbox_events o on o.subject = c.product_id
       where c.product_id = $1 and a.actor = 'velocity' and o.type like '%campaign.paused%'`,
      [product],
    );
    if (rows.length === 0) return false;
    const reason = expect.stringMatching(/^\d+ users got their first promise within 5 seconds; 0.0 are usual$/);
    expect(rows).toMatchObject([{ reason, data: { actor: 'velocity', reason } }]);
    return true;
  });
  expect(await pauseOf(product)).toEqual({
    by: 'velocity',
    at: expect.any(String),
    reason: expect.stringMatching(/users got their first promise/),
  });
  await until('it is counted', async () => (await alerts('paused')) === 1);
  await operator.call('POST', `/admin/campaigns/${product}/resume`);
  expect(countStatuses(await storm(product, 100))).toEqual({ 200: 100 });
  expect([(await get(product)).status, await pauseOf(product)]).toEqual(['open', null]);
});

test('each bucket of a divided campaign is paused', async () => {
  const product = await open({ velocity: 'pause', total_limit: 2_000, buckets: 2 });
  await storm(product, 300);
  await until('all are paused', async () => {
    const { 503: refused } = countStatuses(await storm(product, 20));
    return refused === 20;
  });
  await until('it is paused', async () => (await get(product)).status === 'paused');
  await operator.call('POST', `/admin/campaigns/${product}/resume`);
  expect(countStatuses(await storm(product, 20))).toEqual({ 200: 20 });
});

test('coupons with a limit and without a line are paused by default, other campaigns raise an alert', async () => {
  const velocityOf = async (terms: Record<string, unknown>) => {
    const { velocity, opening_minutes } = await get(await operator.openCampaign({ total_limit: 10, ...terms }));
    return [velocity, opening_minutes];
  };
  const line = { waiting_room: { enabled: true } };
  expect(await velocityOf({ code: 'VELOCITY1' })).toEqual(['pause', 2]);
  expect(await velocityOf({ type: 'pool', opening_minutes: 0 })).toEqual(['pause', 0]);
  expect(await velocityOf({ type: 'unique', velocity: 'off' })).toEqual(['off', 2]);
  expect(await velocityOf({ code: 'VELOCITY2', ...line })).toEqual(['alert', 2]);
  expect(await velocityOf({ code: 'VELOCITY3', total_limit: null })).toEqual(['alert', 2]);
  expect(await velocityOf({})).toEqual(['alert', 2]);

  const product = await open();
  const before = await alerts('alerted');
  expect(countStatuses(await storm(product, 100))).toEqual({ 200: 100 });
  await until('it is counted', async () => (await alerts('alerted')) === before + 1);
  expect((await get(product)).status).toBe('open');
  const changed = await open();
  await operator.call('PATCH', `/admin/campaigns/${changed}`, { velocity: 'pause' });
  await storm(changed, 100);
  await until('it is paused', async () => (await get(changed)).status === 'paused');
});

test('a setting that does not exist is refused', async () => {
  for (const wrong of [{ velocity: 'stop' }, { opening_minutes: -1 }, { opening_minutes: 1_441 }]) {
    const response = await operator.call('POST', '/admin/campaigns', { product_id: 'wrong', total_limit: 1, ...wrong });
    expectProblem(response, 400, 'invalid_request');
  }
});
