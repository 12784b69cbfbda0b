import { afterEach, expect, test } from '@jest/globals';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** Codes in rows: which was used under which terms, and that Postgres lets none be used twice. */
const sale = await startSale();
const store = await startPersistence(sale);

afterEach(async () => {
  await sale.expectConsistent();
  expect(await store.rejects()).toEqual([]);
  expect(await store.isCaughtUp()).toBe(true);
});

const openPool = async (terms: Parameters<typeof store.openCampaign>[0] = {}) => {
  const campaign = await store.openCampaign({ type: 'pool', perUserLimit: 9, ...terms });
  await store.issueCodes(campaign, 9);
  return campaign;
};
const usesOf = async (campaign: TestCampaign) =>
  (await store.redemptions(campaign)).map(({ user_id, code_no, terms_version, status }) => [
    user_id,
    code_no,
    terms_version,
    status,
  ]);

test('Persist writes the code and the version of the terms of each, and the code of those who wait', async () => {
  const campaign = await openPool({ totalLimit: 2 });
  await campaign.take('ann');
  await campaign.amend({ name: 'Renamed' });
  const id = await campaign.use('bob', 7);
  await campaign.redeem('cid', 9);
  await campaign.join('dan');
  await campaign.amend({ name: 'And again' });
  await store.persist();
  const { rows } = await store.sql.query(
    'select user_id, code_no from waiting_tickets where campaign_id = $1 order by line_no',
    [campaign.terms.id],
  );
  expect(rows).toEqual([
    { user_id: 'cid', code_no: 9 },
    { user_id: 'dan', code_no: null },
  ]);
  await campaign.release(id);
  await store.persist();
  expect(await usesOf(campaign)).toEqual([
    ['ann', 1, 1, 'reserved'],
    ['bob', 7, 2, 'released'],
    ['cid', 9, 3, 'reserved'],
  ]);
});

test('the one code of a shared campaign has no number', async () => {
  const campaign = await store.openCampaign();
  await campaign.use('ann', 0);
  await campaign.use('bob', 0);
  await store.persist();
  expect(await usesOf(campaign)).toEqual([
    ['ann', null, 1, 'reserved'],
    ['bob', null, 1, 'reserved'],
  ]);
});

for (const batchEntries of [1, 500]) {
  test(`a code that goes from one to the next is used by the last, in batches of ${batchEntries}`, async () => {
    const campaign = await openPool({ holdSeconds: 600, latePayment: 'reacquire' });
    const persist = () => store.persist(store.persistWith({ batchEntries }));
    const anns = await campaign.use('ann', 1);
    await campaign.release(anns);
    const bobs = await campaign.use('bob', 1);
    await persist();
    await campaign.release(bobs);
    await campaign.confirm(await campaign.use('cid', 1));
    await persist();
    expect(await usesOf(campaign)).toEqual([
      ['ann', 1, 1, 'released'],
      ['bob', 1, 1, 'released'],
      ['cid', 1, 1, 'redeemed'],
    ]);
  });

  test(`a late payment may have the code of whom it was after, in batches of ${batchEntries}`, async () => {
    const campaign = await openPool({ latePayment: 'reacquire' });
    const persist = () => store.persist(store.persistWith({ batchEntries }));
    const [anns, cids] = [await campaign.use('ann', 1), await campaign.use('cid', 2)];
    await campaign.release(anns);
    const bobs = await campaign.use('bob', 1);
    await persist();
    await campaign.release(bobs);
    expect(await campaign.confirm(anns)).toMatchObject({ reacquired: true });
    await campaign.release(cids);
    await campaign.use('dan', 2);
    await persist();
    await campaign.refund(anns);
    expect(await campaign.confirm(bobs)).toMatchObject({ reacquired: true });
    await persist();
    expect(await usesOf(campaign)).toEqual([
      ['ann', 1, 1, 'refunded'],
      ['cid', 2, 1, 'released'],
      ['bob', 1, 1, 'redeemed'],
      ['dan', 2, 1, 'reserved'],
    ]);
    expect(store.log.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });
}

test('Postgres refuses a second use of a code: it is voided, its unit goes to the next and the code stays used', async () => {
  const campaign = await openPool({ totalLimit: 3 });
  await store.insertByHand(campaign, { user: 'somebody', code: 2 });
  await store.sql.query('update campaigns set total_limit = 9 where campaign_id = $1', [campaign.terms.id]);
  const ids = [await campaign.use('ann', 1), await campaign.use('bob', 2), await campaign.use('cid', 3)];
  await campaign.join('dan');
  await store.persist();
  await store.persist();
  const saved = ['reserved', 'reserved', null];
  expect(await store.bothSides(campaign, ids)).toEqual([
    saved,
    ['voided', 'voided', 'redemptions_one_per_code'],
    saved,
  ]);
  expect(await campaign.standing('dan')).toMatchObject({ status: 'promoted', code: 4 });
  expect(await campaign.stock()).toMatchObject({ total: 3, free: 0, held: 3 });
  expect(await campaign.redeem('eve', 2)).toEqual({ kind: 'code_used' });
  const { values } = await store.metrics.voided.get();
  expect(values.find(({ labels }) => labels.constraint === 'redemptions_one_per_code')?.value).toBe(1);
  expect(await sale.audit()).toEqual([`${campaign.product}: the set of used codes is [1,2,3,4], not [1,3,4]`]);
});

test('Postgres refuses a late payment whose code it knows to be used', async () => {
  const campaign = await openPool({ latePayment: 'reacquire' });
  const id = await campaign.use('ann', 1);
  await campaign.release(id);
  await store.persist();
  await store.insertByHand(campaign, { user: 'somebody', code: 1 });
  expect(await campaign.confirm(id)).toMatchObject({ kind: 'redeemed', reacquired: true });
  await store.persist();
  await store.persist();
  expect(await store.bothSides(campaign, [id])).toEqual([['voided', 'voided', 'redemptions_one_per_code']]);
  expect(await campaign.stock()).toMatchObject({ free: 10, redeemed: 0 });
  expect(await campaign.redeem('eve', 1)).toEqual({ kind: 'code_used' });
  expect(await sale.audit()).toEqual([`${campaign.product}: the set of used codes is [1], not []`]);
});

test('an ended reservation may have had any code, and a burned one keeps its code', async () => {
  const campaign = await openPool();
  const anything = { user: 'somebody', slot: 1 };
  for (const status of ['released', 'expired', 'voided', 'refunded']) {
    await store.insertByHand(campaign, { ...anything, status, code: 1 });
  }
  await store.insertByHand(campaign, { ...anything, code: 1 });
  const again = store.insertByHand(campaign, { user: 'another', status: 'reserved', code: 1 });
  await expect(again).rejects.toMatchObject({ constraint: 'redemptions_one_per_code' });
  await store.sql.query(
    `update redemptions set status = 'refunded', burned = true, refunded_at = now() where campaign_id = $1 and status = 'redeemed'`,
    [campaign.terms.id],
  );
  const afterBurning = store.insertByHand(campaign, { user: 'another', status: 'reserved', code: 1 });
  await expect(afterBurning).rejects.toMatchObject({ constraint: 'redemptions_one_per_code' });
  await store.persist();
});
