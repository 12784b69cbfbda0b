import { afterEach, expect, test } from '@jest/globals';
import { Metrics } from '../../shared/observability/metrics.js';
import { keys } from '../../shared/redis/keys.js';
import { ActiveCampaigns } from '../../worker/expire/active-campaigns.js';
import { expireOverdue } from '../../worker/expire/expire.js';
import { maintainLines } from '../../worker/expire/maintain-lines.js';
import { promoteWaiting } from '../../worker/promote/promote.js';
import { recordingLog } from '../harness/recording-log.js';
import { startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

/** What the worker does with the scripts `expire` and `promote`, called as its processors are. */
const sale = await startSale();
afterEach(() => sale.expectConsistent());

/** The campaigns of the directory, also those that Redis has lost. */
const all = async () => [...(await sale.store.reader.directory()).values()];
const countOf = async (counter: Metrics['expired']) => (await counter.get()).values[0]?.value ?? 0;

test('a sweep ends everything overdue in every campaign, a bounded number in each call', async () => {
  const [first, second, closed] = [
    await sale.openCampaign({ perUserLimit: 9 }),
    await sale.openCampaign({ perUserLimit: 9 }),
    await sale.openCampaign({ perUserLimit: 9 }),
  ];
  for (const [campaign, count] of [
    [first, 7],
    [second, 4],
    [closed, 3],
  ] as const) {
    for (let i = 0; i < count; i += 1) await campaign.letDeadlinePass(await campaign.take('ann'));
  }
  await closed.setStatus('close');
  const inTime = await first.take('bob');
  const [metrics, log] = [new Metrics(false), recordingLog()];
  await expireOverdue(sale.store, metrics, log, { sweepBatch: 2 }, await all());
  expect(await first.stock()).toMatchObject({ free: 9, held: 1 });
  expect(await first.reservation(inTime)).toMatchObject({ state: 'reserved' });
  expect(await second.stock()).toMatchObject({ free: 10, held: 0 });
  expect(await closed.stock()).toMatchObject({ free: 10, held: 0 });
  expect(await countOf(metrics.expired)).toBe(14);
  const calls = log.lines.filter(({ fields }) => fields.campaign === first.product).map(({ fields }) => fields.expired);
  expect(calls).toEqual([2, 2, 2, 1]);
});

test('a sweep promotes for the units that it ends, and for units that were free while no user could get them', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 5, perUserLimit: 9 });
  const held = [await campaign.take('ann'), await campaign.take('ann')];
  await campaign.take('ann', { qty: 3 });
  for (const user of ['bob', 'cid', 'dan', 'eve', 'fay', 'gus', 'hal']) await campaign.join(user);
  await campaign.setStatus('pause');
  await campaign.restock(4);
  await campaign.setStatus('resume');
  for (const id of held) await campaign.letDeadlinePass(id);
  const metrics = new Metrics(false);
  await expireOverdue(sale.store, metrics, recordingLog(), { sweepBatch: 1 }, await all());
  expect(await campaign.line()).toEqual(['hal']);
  expect([await countOf(metrics.expired), await countOf(metrics.promoted)]).toEqual([2, 6]);
});

test('a sweep tends every line to the end, a bounded number of people in each call', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, type: 'pool', codes: 1 });
  await campaign.confirm(await campaign.use('ann', 1));
  for (const user of ['bob', 'cid', 'dan', 'eve', 'fay']) await campaign.join(user);
  const metrics = new Metrics(false);
  const closedAtOnce = { tendBatch: 2, groupWaitMs: 30_000, lineSettleMs: 0 };
  await maintainLines(sale.store, metrics, recordingLog(), closedAtOnce, await all());
  expect(await campaign.line()).toEqual([]);
  expect((await metrics.placesEnded.get()).values).toMatchObject([
    { labels: { why: 'absent' }, value: 0 },
    { labels: { why: 'closed' }, value: 5 },
  ]);
});

test('a worker finds the campaigns in which a deadline has passed or users wait, also new ones', async () => {
  const active = new ActiveCampaigns(sale.store.reader, sale.redis);
  const found = async () => (await active.read(Date.now())).map(({ product }) => product);
  const idle = await sale.openCampaign();
  const held = await sale.openCampaign();
  const waiting = await sale.openCampaign({ totalLimit: 1, holdSeconds: 0 });
  const id = await held.take('ann');
  await waiting.take('ann');
  await waiting.join('bob');
  expect(await found()).toContain(waiting.product);
  // Its deadline is far ahead.
  expect(await found()).not.toContain(held.product);
  await held.letDeadlinePass(id);
  await until('it is found', async () => (await found()).includes(held.product));
  // What has been found is asked again each time.
  await expireOverdue(sale.store, new Metrics(false), recordingLog(), { sweepBatch: 9 }, [held.product]);
  expect(await found()).not.toContain(held.product);
  expect(await found()).not.toContain(idle.product);
  const later = await sale.openCampaign();
  await later.letDeadlinePass(await later.take('ann'));
  await until('it is found', async () => (await found()).includes(later.product));
});

test('a sweep is not held up by a campaign that has vanished', async () => {
  const [vanished, campaign] = [sale.unknownCampaign(), await sale.openCampaign()];
  await sale.redis.hset(keys.directory, String(vanished.terms.no), vanished.product);
  await campaign.letDeadlinePass(await campaign.take('ann'));
  await expireOverdue(sale.store, new Metrics(false), recordingLog(), { sweepBatch: 10 }, await all());
  expect(await campaign.stock()).toMatchObject({ free: 10, held: 0 });
});

test('two sweeps at once end each promise once', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 50, perUserLimit: 50 });
  for (let i = 0; i < 50; i += 1) await campaign.letDeadlinePass(await campaign.take('ann'));
  const metrics = new Metrics(false);
  const sweep = () => expireOverdue(sale.store, metrics, recordingLog(), { sweepBatch: 3 }, [campaign.product]);
  await Promise.all([sweep(), sweep(), sweep()]);
  expect(await countOf(metrics.expired)).toBe(50);
  expect((await campaign.entries()).filter(({ kind }) => kind === 'expired').length).toBe(50);
});

test('a sweep promotes until there are no more units or no more people, a batch at a time', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  const users = Array.from({ length: 9 }, (_, i) => `user-${i}`);
  for (const user of users) await campaign.join(user);
  await campaign.restock(7, { limit: 0 });
  const [metrics, log] = [new Metrics(false), recordingLog()];
  await promoteWaiting(sale.store, metrics, log, campaign.product, { promoteBatch: 3 });
  expect(await campaign.line()).toEqual(users.slice(7));
  expect(log.lines.map(({ fields }) => fields.promoted)).toEqual([3, 3, 1]);
  expect(await countOf(metrics.promoted)).toBe(7);
  await campaign.restock(7, { limit: 0 });
  await promoteWaiting(sale.store, metrics, log, campaign.product, { promoteBatch: 3 });
  expect(await campaign.stock()).toMatchObject({ free: 5, held: 9, waiting: 0 });
  await promoteWaiting(sale.store, metrics, log, sale.unknownCampaign().product, { promoteBatch: 3 });
  expect(await countOf(metrics.promoted)).toBe(9);
});
