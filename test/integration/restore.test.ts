import { afterEach, expect, test } from '@jest/globals';
import type { IdempotencyKey } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';
import { restoreCampaign } from '../../worker/rebuild/restore-campaign.js';
import { newKey, type TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale, TEST_LIMITS } from '../harness/sale.js';

/** A campaign that Redis has lost and gets back from Postgres. */
const sale = await startSale();
const store = await startPersistence(sale);
afterEach(async () => expect(await sale.audit()).toEqual([]));

/** Writes what is journaled, loses everything that Redis had of the campaign, the answers to these keys too, and fills it again. */
async function loseAndRestore(campaign: TestCampaign, answers: readonly string[] = []): Promise<void> {
  const { product } = campaign;
  await store.persist();
  const lost = [keys.campaign, keys.people, keys.reservations, keys.deadlines, keys.line].map((key) => key(product));
  await sale.redis.del(...lost, ...answers.map((key) => keys.idempotency(key as IdempotencyKey)));
  const stored = await store.campaigns.find(product);
  if (!stored) throw new Error('the campaign is not in Postgres');
  const parts = { database: store.database, sale: sale.store, log: store.log };
  await restoreCampaign({ ...parts, idempotencyTtlMs: TEST_LIMITS.idempotencyTtlMs }, stored, await sale.nowMs());
}

test('has the stock, the promises, the deadlines, the line and the allowances that it had', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5, perUserLimit: 2, refundPolicy: 'burn' });
  await campaign.take('ann', { qty: 2, order: 'cart-1' });
  const burned = await campaign.take('bob');
  await campaign.confirm(burned);
  await campaign.refund(burned);
  await campaign.confirm(await campaign.take('bob'));
  const released = await campaign.take('cid');
  await campaign.join('dan', { qty: 2, order: 'cart-2' });
  await campaign.join('eve');
  await campaign.join('fay');
  await campaign.leave('eve');
  await campaign.release(released);
  const before = await campaign.inRedis();
  const users = ['ann', 'bob', 'cid', 'dan', 'eve', 'fay', 'nobody'];
  const standings = await Promise.all(users.map((user) => campaign.standing(user)));
  await loseAndRestore(campaign);
  const { people: _, ...after } = await campaign.inRedis();
  const { people: __, ...expected } = before;
  expect(after).toEqual(expected);
  expect(await Promise.all(users.map((user) => campaign.standing(user)))).toEqual(standings);
  expect(await campaign.join('gus')).toBe(3);
  expect(await campaign.restock(1)).toMatchObject({ total: 6 });
  expect(await campaign.standing('dan')).toMatchObject({ status: 'promoted', orderId: 'cart-2' });
});

test('gives the first answers again', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, perUserLimit: 2 });
  const [annsKey, bobsKey] = [newKey(), newKey()];
  await campaign.take('ann', { key: annsKey });
  await campaign.join('bob', { key: bobsKey });
  const first = [await campaign.checkout('ann', { key: annsKey }), await campaign.checkout('bob', { key: bobsKey })];
  await loseAndRestore(campaign, [annsKey, bobsKey]);
  expect([await campaign.checkout('ann', { key: annsKey }), await campaign.checkout('bob', { key: bobsKey })]).toEqual(
    first,
  );
  expect(await campaign.stock()).toMatchObject({ held: 1, waiting: 1 });
});

test('does not repeat a restock that an operator asks for again', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const key = newKey();
  await campaign.restock(2, { key });
  await loseAndRestore(campaign, [key]);
  expect(await campaign.restock(2, { key })).toMatchObject({ kind: 'restocked', total: 3 });
});

test('gives nobody a second unit who repeats the request that told him his place', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1, perUserLimit: 2 });
  const [reservation, key] = [await campaign.take('ann'), newKey()];
  await campaign.join('bob');
  expect((await campaign.checkout('bob', { key })).kind).toBe('waiting');
  await campaign.release(reservation);
  await campaign.restock(1);
  await loseAndRestore(campaign, [key]);
  expect((await campaign.checkout('bob', { key })).kind).toBe('replayed');
});
