import { afterEach, expect, test } from '@jest/globals';
import { ScriptRunner } from '../../../shared/redis/script-runner.js';
import { SaleStore } from '../../../shared/sale/sale-store.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { newKey } from '../../harness/campaign.js';
import { connectToRedis, startSale, TEST_LIMITS } from '../../harness/sale.js';

/** Many at once, over several connections, so that their calls arrive at Redis in a random order. */
const sale = await startSale();
afterEach(() => sale.expectConsistent());

const others = await Promise.all(Array.from({ length: 4 }, () => connectToRedis(sale.engine.url)));
const stores = others.map((redis) => new SaleStore(new ScriptRunner(redis, sale.store.scripts.luaFolder), TEST_LIMITS));
const through = (campaign: TestCampaign, i: number) => campaign.through(stores[i % stores.length] ?? sale.store);
const people = Array.from({ length: 1_000 }, (_, i) => `user-${i}`);

const kinds = (outcomes: readonly { kind: string }[]) => {
  const counts: Record<string, number> = {};
  for (const { kind } of outcomes) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
};

test('reserve gives the last unit to exactly one of a thousand simultaneous shoppers and a place to each of the others', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const outcomes = await Promise.all(people.map((user, i) => through(campaign, i).checkout(user)));
  expect(kinds(outcomes)).toEqual({ reserved: 1, queued: 999 });
  const positions = outcomes.flatMap((outcome) => (outcome.kind === 'queued' ? [outcome.position] : []));
  expect(positions.sort((a, b) => a - b)).toEqual(Array.from({ length: 999 }, (_, i) => i + 1));
});

test('reserve gives a user who checks out a hundred times at once as many units as the limit allows', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 500, perUserLimit: 3 });
  const outcomes = await Promise.all(Array.from({ length: 100 }, (_, i) => through(campaign, i).checkout('ann')));
  expect(kinds(outcomes)).toEqual({ reserved: 3, limit_reached: 97 });
});

test('reserve decides once for a key that comes a hundred times at once', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 500, perUserLimit: 100 });
  const key = newKey();
  const outcomes = await Promise.all(
    Array.from({ length: 100 }, (_, i) => through(campaign, i).checkout('ann', { key })),
  );
  expect(kinds(outcomes)).toEqual({ reserved: 1, replayed: 99 });
  expect(await campaign.stock()).toMatchObject({ free: 499, held: 1 });
});

test('each promise ends once when confirm, release and the sweep come together', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 200 });
  const held = await Promise.all(people.slice(0, 200).map((user) => campaign.take(user)));
  await Promise.all(held.map((id, i) => (i % 2 === 0 ? campaign.letDeadlinePass(id) : null)));
  await Promise.all(
    held.flatMap((id, i) => [
      through(campaign, i).confirm(id),
      through(campaign, i + 1).release(id),
      through(campaign, i + 2).expire(7),
      through(campaign, i + 3).confirm(id),
    ]),
  );
  const ends = new Map<string, number>();
  for (const entry of await campaign.entries()) {
    if ('reservation' in entry && entry.kind !== 'reserved')
      ends.set(entry.reservation, (ends.get(entry.reservation) ?? 0) + 1);
  }
  expect([...ends.values()]).toEqual(held.map(() => 1));
});

test('the line is served in its order although units come back from everywhere at once', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 100 });
  const held = await Promise.all(people.slice(0, 100).map((user) => campaign.take(user)));
  for (const user of people.slice(100, 300)) await campaign.join(user);
  await Promise.all(held.map((id, i) => through(campaign, i).release(id)));
  const served = (await campaign.entries()).flatMap((entry) =>
    entry.kind === 'reserved' && entry.lineNo > 0 ? [entry.user] : [],
  );
  expect(served).toEqual(people.slice(100, 200));
  expect(await campaign.line()).toEqual(people.slice(200, 300));
});
