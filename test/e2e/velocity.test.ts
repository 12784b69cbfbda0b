import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, send } from '../harness/clients.js';
import { startService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await startService();
const operator = new Operator(service.url);
// A storm may lie on both sides of a minute's border: each is more than twice the floor.
const LOW = { unusual_hours: null, velocity_floor_per_minute: 30, accounts_per_address: null };
const open = (risk: string, limits: Record<string, unknown> = {}) =>
  operator.openCampaign({
    total_limit: 1,
    hold_seconds: 900,
    waiting_room: { enabled: true },
    risk,
    limits: { ...LOW, ...limits },
  });
const storm = async (product: string, attempts: number) => {
  for (let sent = 0; sent < attempts; sent += 20)
    await Promise.all(Array.from({ length: 20 }, () => arrive(service.url, product).checkout()));
};
const statusOf = async (product: string) => (await operator.call('GET', `/admin/campaigns/${product}`)).data.status;
/** Attempts of the hour before, as the APIs would have counted them. */
const usually = async (product: string, perMinute: number) => {
  const minute = Math.floor(Date.now() / 60_000);
  for (let before = 1; before <= 61; before += 1)
    await service.redis.client.hset(`db1:n:${minute - before}`, product, perMinute);
};
const alerts = async (mode: string) => {
  const { text } = await send(`${service.url}/metrics`);
  const line = text.split('\n').find((one) => one.startsWith(`doorbuster_velocity_alerts_total{mode="${mode}"`));
  return Number(line?.split(' ').at(-1) ?? 0);
};

test('a campaign that is stormed is paused with its line and its holds, told of, and resumed by an operator only', async () => {
  const product = await open('enforce');
  await storm(product, 80);
  await until('it is paused', async () => (await statusOf(product)) === 'paused', 20_000);
  expectProblem(await arrive(service.url, product).checkout(), 503, 'campaign_paused');
  const { held, waiting } = await operator.stats(product);
  expect([held, waiting]).toEqual([1, 79]);
  await until('it is written', async () => {
    const { rows } = await service.database.client.query(
      `select a.actor, o.type from audit_log a join campaigns c using (campaign_id) join outbox o on o.subject = c.product_id
       where c.product_id = $1 and a.actor = 'velocity' and o.type like '%campaign.paused%'`,
      [product],
    );
    return rows.length === 1;
  });
  await until('it is counted', async () => (await alerts('enforce')) >= 1);
  await operator.call('POST', `/admin/campaigns/${product}/resume`);
  // Judged again some times by now: what was an attack once is not held against the operator.
  const looked = async () =>
    Number(/cmdstat_hgetall:calls=(\d+)/.exec(await service.redis.client.info('commandstats'))?.[1]);
  const before = await looked();
  await until('the worker has looked again', async () => (await looked()) > before + 20, 20_000);
  expect(await statusOf(product)).toBe('open');
}, 60_000);

test('one that only observes goes on, and somebody is told; a usual crowd and a small one are no attack', async () => {
  const [observed, usual, small, off] = [
    await open('observe'),
    await open('enforce'),
    await open('enforce', { velocity_floor_per_minute: 1_000 }),
    await open('off'),
  ];
  await usually(usual, 1);
  const before = await alerts('enforce');
  await Promise.all([storm(observed, 80), storm(usual, 80), storm(small, 80), storm(off, 80)]);
  await until('the storm was seen', async () => (await alerts('observe')) >= 1, 20_000);
  for (const product of [observed, usual, small, off]) expect(await statusOf(product)).toBe('open');
  expect(await alerts('enforce')).toBe(before);
  await usually(usual, 0);
  await storm(usual, 80);
  await until('without the hour before it is one', async () => (await statusOf(usual)) === 'paused', 20_000);
}, 60_000);

test('guesses of products that nobody sells are not told apart', async () => {
  await Promise.all(Array.from({ length: 20 }, () => arrive(service.url, `none-${randomUUID()}`).checkout()));
  const minute = async () => service.redis.client.hkeys(`db1:n:${Math.floor(Date.now() / 60_000)}`);
  await until('they were counted', async () => (await minute()).includes(''), 5_000);
  expect((await minute()).filter((name) => name.startsWith('none-'))).toEqual([]);
});
