import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { keyNames } from '../harness/key-names.js';
import { startService } from '../harness/service.js';
import { arrive, countStatuses } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

const service = await startService();
const operator = new Operator(service.url);
/** For what needs another minute. */
const ANOTHER_MINUTE_MS = 180_000;
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
/** @returns the answers */
const storm = async (product: string, attempts: number) => {
  const answers: Answer[] = [];
  while (answers.length < attempts)
    answers.push(...(await Promise.all(Array.from({ length: 20 }, () => arrive(service.url, product).checkout()))));
  return answers;
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

test('a campaign that is stormed is paused with its line and its holds, reported, and resumed by an operator only', async () => {
  const product = await open('enforce');
  // On a busy machine it is paused before the last of them.
  const { 200: bought = 0, 202: queued = 0 } = countStatuses(await storm(product, 80));
  await until('it is paused', async () => (await statusOf(product)) === 'paused');
  expectProblem(await arrive(service.url, product).checkout(), 503, 'campaign_paused');
  const { held, waiting } = await operator.stats(product);
  expect(bought + queued).toBeGreaterThan(30);
  expect([bought, held, waiting]).toEqual([1, 1, queued]);
  await until('it is written', async () => {
    const { rows } = await service.database.client.query(
      `select a.actor, a.after ->> 'reason' as reason, o.type from audit_log a join campaigns c using (campaign_id) join outbox_events o on o.subject = c.product_id
       where c.product_id = $1 and a.actor = 'velocity' and o.type like '%campaign.paused%'`,
      [product],
    );
    return rows.length === 1 && /^\d+ units and places were promised in a minute; 0.0 are usual$/.test(rows[0].reason);
  });
  const overview = await operator.call('GET', `/admin/overview?campaign=${product}`);
  expect((overview.data as any).campaigns[0].pause).toEqual({
    by: 'velocity',
    at: expect.any(String),
    reason: expect.stringMatching(/units and places were promised/),
  });
  await until('it is counted', async () => (await alerts('enforce')) >= 1);
  await operator.call('POST', `/admin/campaigns/${product}/resume`);
  // Judged again some times by now: what was an attack once is not held against the operator.
  const looked = async () =>
    Number(/cmdstat_hgetall:calls=(\d+)/.exec(await service.redis.client.info('commandstats'))?.[1]);
  const before = await looked();
  await until('the worker has looked again', async () => (await looked()) > before + 20);
  expect(await statusOf(product)).toBe('open');
  expect(
    ((await operator.call('GET', `/admin/overview?campaign=${product}`)).data as any).campaigns[0].pause,
  ).toBeNull();
});

test('a campaign that only observes goes on and is reported; a usual crowd and a small one are no attack', async () => {
  const [observed, usual, small, off] = [
    await open('observe'),
    await open('enforce'),
    await open('enforce', { velocity_floor_per_minute: 1_000 }),
    await open('off'),
  ];
  await usually(usual, 1);
  const before = await alerts('enforce');
  await Promise.all([storm(observed, 80), storm(usual, 80), storm(small, 80), storm(off, 80)]);
  await until('the storm was seen', async () => (await alerts('observe')) >= 1);
  for (const product of [observed, usual, small, off]) expect(await statusOf(product)).toBe('open');
  expect(await alerts('enforce')).toBe(before);
  await usually(usual, 0);
  await storm(usual, 80);
  await until('without the hour before it is one', async () => (await statusOf(usual)) === 'paused');
});

test('neither requests without a promise nor one user who reserves and releases can pause a sale', async () => {
  const product = await open('enforce', { velocity_floor_per_minute: 10 });
  const counted = async () => {
    const minute = Math.floor(Date.now() / 60_000);
    const counts = await Promise.all(
      [minute - 1, minute].map((one) => service.redis.client.hget(`db1:n:${one}`, product)),
    );
    return counts.reduce((sum, count) => sum + Number(count ?? 0), 0);
  };
  const holder = arrive(service.url, product);
  expect((await holder.checkoutWithHeader('the-key-of-it')).status).toBe(200);
  const many = (call: () => Promise<{ status: number }>) => Promise.all(Array.from({ length: 60 }, call));
  // Replays, refusals of a user who has a unit, of a device over its quota, of forged tokens, of made-up products.
  await many(() => holder.checkoutWithHeader('the-key-of-it'));
  await many(() => arrive(service.url, product, holder.user).checkout());
  await many(() => holder.checkout());
  await many(() => arrive(service.url, product).checkout({ attestation: 'a1.forged' }));
  await many(() => arrive(service.url, `none-${randomUUID()}`).checkout());
  // A user who leaves the line and joins it again.
  const waiter = arrive(service.url, product);
  for (let i = 0; i < 15; i += 1) {
    await waiter.checkout();
    expect((await waiter.leave()).status).toBe(200);
  }
  await until('the two are counted', async () => (await counted()) >= 2);
  expect(await counted()).toBeLessThanOrEqual(3);
  const names = await service.redis.client.hkeys(`db1:n:${Math.floor(Date.now() / 60_000)}`);
  expect(names.filter((name) => name === '' || name.startsWith('none-'))).toEqual([]);
  expect(await statusOf(product)).toBe('open');
});

test('the floor follows the units of a campaign, and what an operator resumes is not paused again', async () => {
  const limits = { unusual_hours: null };
  const [large, small] = [
    await operator.openCampaign({ total_limit: 2_000, risk: 'enforce', limits }),
    await operator.openCampaign({ total_limit: 1_000, risk: 'enforce', limits }),
  ];
  const used = new Set<number>();
  // The worker judges the present minute and the one before. A minute may pass before it does, so the promises are
  // counted each time that a wait looks.
  const count = async (promises: number, isFree: (minute: number) => boolean) => {
    const now = Math.floor(Date.now() / 60_000);
    const minute = [now, now - 1].find(isFree);
    if (minute === undefined) return;
    used.add(minute);
    for (const product of [small, large]) await service.redis.client.hset(`db1:n:${minute}`, product, promises);
  };
  await until('the small one is paused', async () => {
    await count(30_000, () => true);
    return (await statusOf(small)) === 'paused';
  });
  expect(await statusOf(large)).toBe('open');
  // Resuming is one press: another minute of the same crowd does not pause again what an operator has just resumed.
  await operator.call('POST', `/admin/campaigns/${small}/resume`);
  const before = new Set(used);
  // A minute that passes before it is judged is part of what is usual in the next one, which must have far more.
  const countAnother = () => count(1_000_000 * 1_000 ** (used.size - before.size), (minute) => !before.has(minute));
  // Another minute begins once a minute, and the worker comes to it a while later.
  await until(
    'another minute was judged',
    async () => {
      await countAnother();
      return (await statusOf(large)) === 'paused';
    },
    ANOTHER_MINUTE_MS,
  );
  // Each minute is judged product by product, so the small one has been judged as well, or will be.
  const alerted = async () => (await keyNames(service.redis.client, `db1:u:v:*:${small}`)).length;
  await until(
    'another minute of the small one was judged',
    async () => {
      await countAnother();
      return (await alerted()) >= 2;
    },
    ANOTHER_MINUTE_MS,
  );
  expect(await statusOf(small)).toBe('open');
});
