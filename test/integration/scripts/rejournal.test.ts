import { afterEach, expect, test } from '@jest/globals';
import type { ReservationId } from '../../../shared/domain/ids.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startPersistence } from '../../harness/persistence.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
afterEach(async () => expect(await sale.audit()).toEqual([]));

const NOBODYS = '01890a5d-ac96-774b-bcce-b302099a8057';
const rejournal = (campaign: TestCampaign, id: string, row: 'missing' | 'reserved') =>
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
