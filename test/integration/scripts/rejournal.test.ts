import { afterEach, expect, test } from '@jest/globals';
import type { ReservationId } from '../../../shared/domain/ids.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startPersistence } from '../../harness/persistence.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
afterEach(() => sale.expectConsistent());

const NOBODYS = '01890a5d-ac96-774b-bcce-b302099a8057';
const rejournal = (campaign: TestCampaign, id: string, row: 'missing' | 'reserved' | 'more_units') =>
  sale.store.reservations.rejournal(campaign.product, id as ReservationId, row);

/** The entries that have not been written yet vanish, as no script lets them. */
const loseJournal = () => store.loseJournal([]);

const LIVES: [string, (campaign: TestCampaign, id: string) => Promise<unknown>, object][] = [
  ['reserved', async () => {}, { status: 'reserved', burned: false }],
  ['redeemed', (campaign, id) => campaign.confirm(id), { status: 'redeemed', burned: false }],
  ['released', (campaign, id) => campaign.release(id), { status: 'released', burned: false }],
  [
    'expired',
    async (campaign, id) => {
      await campaign.letDeadlinePass(id);
      await campaign.expire();
    },
    { status: 'expired', burned: false },
  ],
  [
    'taken again after its deadline',
    async (campaign, id) => {
      await campaign.amend({ latePayment: 'reacquire' });
      await campaign.release(id);
      await campaign.confirm(id);
    },
    { status: 'redeemed', reacquired: true },
  ],
  [
    'refunded',
    async (campaign, id) => {
      await campaign.confirm(id);
      await campaign.refund(id);
    },
    { status: 'refunded', burned: false },
  ],
  [
    'burned',
    async (campaign, id) => {
      await campaign.amend({ refundPolicy: 'burn' });
      await campaign.confirm(id);
      await campaign.refund(id);
    },
    { status: 'refunded', burned: true },
  ],
];

for (const [what, live, row] of LIVES) {
  test(`a promise that is ${what} and never reached Postgres gets its row`, async () => {
    const campaign = await store.openCampaign();
    const id = await campaign.take('ann', { qty: 2, order: 'cart-1' });
    await live(campaign, id);
    await loseJournal();
    const before = await campaign.inRedis();
    expect(await rejournal(campaign, id, 'missing')).toMatchObject({
      kind: 'rejournaled',
      entries: expect.any(Number),
    });
    expect(await campaign.inRedis()).toEqual(before);
    await store.persist();
    expect(await store.redemption(id)).toMatchObject({ user_id: 'ann', qty: 2, order_id: 'cart-1', ...row });
    expect(await store.rejects()).toEqual([]);
  });

  test(`a promise that is ${what} ends in Postgres, which has it still reserved`, async () => {
    const campaign = await store.openCampaign();
    const id = await campaign.take('ann');
    await store.persist();
    await live(campaign, id);
    await loseJournal();
    const { entries } = (await rejournal(campaign, id, 'reserved')) as { entries: number };
    expect(entries > 0).toBe(what !== 'reserved');
    await store.persist();
    expect(await store.redemption(id)).toMatchObject(row);
  });
}

test('units that were given back are given back in Postgres, which has all of them', async () => {
  const campaign = await store.openCampaign({ perUserLimit: 3 });
  const take = () => campaign.take('ann', { qty: 3 });
  const [held, paid, ended] = [await take(), await take(), await take()];
  await store.persist();
  await campaign.release(held, null, '', '', 2);
  await campaign.confirm(paid);
  await store.persist();
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.refund(paid, '', 1);
  await campaign.release(ended, null, '', '', 1);
  await campaign.release(ended);
  await loseJournal();
  expect(await rejournal(campaign, held, 'more_units')).toEqual({ kind: 'rejournaled', entries: 1 });
  expect(await rejournal(campaign, paid, 'more_units')).toEqual({ kind: 'rejournaled', entries: 1 });
  expect(await rejournal(campaign, ended, 'reserved')).toEqual({ kind: 'rejournaled', entries: 2 });
  await store.persist();
  expect(await store.redemption(paid)).toMatchObject({ status: 'redeemed', qty: 1, refunded_qty: 2, burned_qty: 2 });
  expect(await store.redemption(ended)).toMatchObject({ status: 'released', qty: 1, released_qty: 2, burned_qty: 0 });
  expect((await store.campaignRow(campaign))?.taken).toBe(5);
});

test('a promise that never reached Postgres gets a row with what it gave back', async () => {
  const campaign = await store.openCampaign({ refundPolicy: 'burn' });
  const id = await campaign.take('ann', { qty: 3 });
  await campaign.release(id, null, '', '', 2);
  await campaign.confirm(id);
  await campaign.refund(id, '', 1);
  await loseJournal();
  expect(await rejournal(campaign, id, 'missing')).toEqual({ kind: 'rejournaled', entries: 4 });
  await store.persist();
  const { rows } = await store.sql.query(
    `select split_part(type, '.', 4) as type, (data ->> 'previous_qty')::int as before, (data ->> 'qty')::int as qty,
       data -> 'refunded' as refunded, data -> 'burned' as burned
     from outbox_events where subject = $1 order by seq`,
    [id],
  );
  const nothing = { before: null, refunded: null, burned: null };
  expect(rows).toEqual([
    { ...nothing, type: 'reserved', qty: 3 },
    { type: 'reduced', before: 3, qty: 2, refunded: false, burned: false },
    { ...nothing, type: 'redeemed', qty: 2 },
    { type: 'reduced', before: 2, qty: 1, refunded: true, burned: true },
  ]);
  const parts = { released_qty: 1, refunded_qty: 1, burned_qty: 1 };
  expect(await store.redemption(id)).toMatchObject({ status: 'redeemed', qty: 1, ...parts });
  expect((await store.campaignRow(campaign))?.taken).toBe(2);
});

test('a promise that needed no payment is journaled as one', async () => {
  const campaign = await store.openCampaign({ holdSeconds: 0 });
  const id = await campaign.take('ann');
  await loseJournal();
  expect(await rejournal(campaign, id, 'missing')).toEqual({ kind: 'rejournaled', entries: 1 });
  await store.persist();
  expect(await store.redemption(id)).toMatchObject({ status: 'redeemed', pay_before: null });
});

test('a promise that needed no payment and was refunded is journaled as two', async () => {
  const campaign = await store.openCampaign({ holdSeconds: 0 });
  const id = await campaign.take('ann');
  await campaign.refund(id);
  await loseJournal();
  expect(await rejournal(campaign, id, 'missing')).toEqual({ kind: 'rejournaled', entries: 2 });
  await store.persist();
  expect(await store.redemption(id)).toMatchObject({ status: 'refunded', redeemed_at: expect.any(Date) });
});

test('a promise that Postgres refused stays refused', async () => {
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann');
  await campaign.void(id, 'returns');
  await loseJournal();
  expect(await rejournal(campaign, id, 'missing')).toEqual({ kind: 'rejournaled', entries: 0 });
});

test('rejournal finds neither an unknown reservation nor a product without a campaign', async () => {
  expect(await rejournal(await store.openCampaign(), NOBODYS, 'missing')).toEqual({ kind: 'not_found' });
  expect(await rejournal(sale.unknownCampaign(), NOBODYS, 'missing')).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() =>
    expect(rejournal(sale.unknownCampaign(), NOBODYS, 'missing')).rejects.toThrow(EngineUnavailable),
  );
});

test('rejournal without a recall does not find a reservation of an archived campaign', async () => {
  const campaign = await store.openCampaign();
  await campaign.pretendArchived();
  expect(await rejournal(campaign, NOBODYS, 'missing')).toEqual({ kind: 'not_found' });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('rejournal')).toEqual([]);
});
