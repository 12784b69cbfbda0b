import { afterEach, expect, test } from '@jest/globals';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/**
 * Within a batch, what ends must come before what begins: the cap and the allowances of Postgres are full all the time.
 */
const sale = await startSale();
const store = await startPersistence(sale);

afterEach(async () => {
  await store.persist();
  await sale.expectConsistent();
  expect(await store.rejects()).toEqual([]);
  const { values } = await store.metrics.voided.get();
  expect(values).toEqual([]);
  // In one go: nothing was refused on the way either.
  expect(store.log.lines.filter(({ level }) => level !== 'info')).toEqual([]);
});

const statuses = async (campaign: TestCampaign) =>
  (await store.redemptions(campaign)).map(({ user_id, status }) => `${user_id} ${status}`).sort();

test('a unit that goes from hand to hand along the line counts once against a full cap', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const users = ['ann', 'bob', 'cid', 'dan'];
  const first = await campaign.take('ann');
  for (const user of users.slice(1)) await campaign.join(user);
  await store.persist();
  await campaign.release(first);
  for (const user of ['bob', 'cid']) await campaign.release(String((await campaign.person(user))?.reservation));
  await store.persist();
  expect(await statuses(campaign)).toEqual(['ann released', 'bob released', 'cid released', 'dan reserved']);
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 1 });
});

test('a user who releases an allowance and takes it again has one row of each', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  let id = await campaign.take('ann');
  await store.persist();
  for (let i = 0; i < 3; i += 1) {
    await campaign.release(id);
    id = await campaign.take('ann');
  }
  await store.persist();
  expect(await statuses(campaign)).toEqual(['ann released', 'ann released', 'ann released', 'ann reserved']);
});

test('units that are added and sold, and sold back and taken away, fit into the cap of their moment', async () => {
  const campaign = await store.openCampaign({ totalLimit: 1 });
  const first = await campaign.take('ann');
  await store.persist();
  await campaign.restock(2);
  await campaign.take('bob', { qty: 2 });
  await store.persist();
  await campaign.release(first);
  await campaign.restock(-1);
  await store.persist();
  expect(await store.campaignRow(campaign)).toEqual({ status: 'open', total_limit: 2, taken: 2 });
  await campaign.restock(3);
  const cid = await campaign.take('cid', { qty: 3 });
  await campaign.release(cid);
  await campaign.restock(-3);
  await store.persist();
  expect(await store.campaignRow(campaign)).toEqual({ status: 'open', total_limit: 2, taken: 2 });
});

test('a refund makes room for the next buyer, a burned unit does not', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2 });
  const [first, second] = [await campaign.take('ann'), await campaign.take('bob')];
  await campaign.confirm(first);
  await campaign.confirm(second);
  await campaign.join('cid');
  await store.persist();
  await campaign.refund(first);
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.refund(second);
  await store.persist();
  expect(await statuses(campaign)).toEqual(['ann refunded', 'bob refunded', 'cid reserved']);
  expect(await store.campaignRow(campaign)).toMatchObject({ taken: 2 });
});

test('late payments take the units and the allowances that other reservations of the same users gave back', async () => {
  const campaign = await store.openCampaign({ totalLimit: 100, latePayment: 'reacquire' });
  const users = Array.from({ length: 100 }, (_, i) => `user-${i}`);
  const late = await Promise.all(users.map((user) => campaign.take(user)));
  await Promise.all(late.map((id) => campaign.release(id)));
  const held = await Promise.all(users.map((user) => campaign.take(user)));
  await store.persist();
  await Promise.all(held.map((id) => campaign.release(id)));
  await Promise.all(late.map((id) => campaign.confirm(id)));
  await store.persist();
  expect(await statuses(campaign)).toEqual(users.flatMap((user) => [`${user} redeemed`, `${user} released`]).sort());
});

test('a late payment that takes another allowance says so in its row', async () => {
  const campaign = await store.openCampaign({ perUserLimit: 2, latePayment: 'reacquire' });
  const late = await campaign.take('ann');
  await campaign.release(late);
  await campaign.take('ann');
  await store.persist();
  await campaign.confirm(late);
  await store.persist();
  expect(await store.redemption(late)).toMatchObject({ status: 'redeemed', reacquired: true, slot: 2 });
});

test('a user who leaves the line and joins it again has one place', async () => {
  const campaign = await store.openCampaign({ totalLimit: 0 });
  await campaign.join('ann');
  await store.persist();
  await campaign.leave('ann');
  await campaign.join('ann');
  await store.persist();
  expect((await store.tickets(campaign)).map(({ line_no, status }) => [line_no, status])).toEqual([
    [1, 'left'],
    [2, 'waiting'],
  ]);
});
