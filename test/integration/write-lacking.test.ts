import { afterEach, expect, test } from '@jest/globals';
import { writeLacking } from '../../worker/reconcile/write-lacking.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

const sale = await startSale();
const store = await startPersistence(sale);
afterEach(() => sale.expectConsistent());

const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };

/** The entries that have not been written yet vanish, as no script lets them. */
const loseJournal = () => store.loseJournal([]);

/** Writes what Postgres lacks. @returns of how many reservations */
async function write(campaign: TestCampaign): Promise<number> {
  const deps = { database: store.database, log: store.log, nowMs: () => Date.now() };
  const { differences } = await store.verdictOf(campaign);
  return writeLacking(deps, [store.part], campaign.product, differences);
}

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
    expect(await write(campaign)).toBe(1);
    expect(await campaign.inRedis()).toEqual(before);
    expect(await store.redemption(id)).toMatchObject({ user_id: 'ann', qty: 2, order_id: 'cart-1', ...row });
    expect(await store.verdictOf(campaign)).toMatchObject(CLEAN);
    expect(await write(campaign)).toBe(0);
  });

  test(`a promise that is ${what} ends in Postgres, which has it still reserved`, async () => {
    const campaign = await store.openCampaign();
    const id = await campaign.take('ann');
    await store.persist();
    await live(campaign, id);
    await loseJournal();
    expect(await write(campaign)).toBe(what === 'reserved' ? 0 : 1);
    expect(await store.redemption(id)).toMatchObject(row);
    expect(await store.verdictOf(campaign)).toMatchObject(CLEAN);
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
  expect(await write(campaign)).toBe(2);
  expect(await store.redemption(paid)).toMatchObject({ status: 'redeemed', qty: 1, refunded_qty: 2, burned_qty: 2 });
  expect(await store.redemption(ended)).toMatchObject({ status: 'released', qty: 1, released_qty: 2, burned_qty: 0 });
  expect((await store.campaignRow(campaign))?.taken).toBe(5);
  expect(await store.verdictOf(campaign)).toMatchObject(CLEAN);
});

test('a promise that never reached Postgres gets a row with what it gave back', async () => {
  const campaign = await store.openCampaign({ refundPolicy: 'burn' });
  const id = await campaign.take('ann', { qty: 3 });
  await campaign.release(id, null, '', '', 2);
  await campaign.confirm(id);
  await campaign.refund(id, '', 1);
  await loseJournal();
  expect(await write(campaign)).toBe(1);
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

test('a promise that needed no payment is paid in its row', async () => {
  const campaign = await store.openCampaign({ holdSeconds: 0 });
  const [kept, refunded] = [await campaign.take('ann'), await campaign.take('bob')];
  await campaign.refund(refunded);
  await loseJournal();
  expect(await write(campaign)).toBe(2);
  expect(await store.redemption(kept)).toMatchObject({ status: 'redeemed', pay_before: null });
  expect(await store.redemption(refunded)).toMatchObject({ status: 'refunded', redeemed_at: expect.any(Date) });
});

test('a row that is gone comes back with its key, its payments and its claim on the order', async () => {
  const campaign = await store.openCampaign({}, { stacking: { exclusive: true } });
  const id = await campaign.use('zoe', 0, { order: 'cart-of-zoe', key: 'key-of-zoe' });
  await campaign.confirm(id, 'pay-1');
  await campaign.confirm(id, 'pay-2');
  await store.persist();
  const [before, again] = [await store.redemption(id), await duplicatePayments(id)];
  await store.sql.query('delete from duplicate_payments where reservation_id = $1', [id]);
  await store.sql.query('delete from redemptions where redemption_id = $1', [id]);
  expect(await write(campaign)).toBe(1);
  const kept = ({ idempotency_key, idempotency_answer, payment_ref, stacking, order_id }: Record<string, unknown>) => ({
    ...{ idempotency_key, idempotency_answer, payment_ref, stacking, order_id },
  });
  expect(kept((await store.redemption(id)) ?? {})).toEqual(kept(before ?? {}));
  expect(before).toMatchObject({ idempotency_key: 'key-of-zoe', payment_ref: 'pay-1', stacking: 'exclusive' });
  expect(await duplicatePayments(id)).toEqual(again);
  expect(again).toEqual(['pay-2']);
});

async function duplicatePayments(id: string): Promise<string[]> {
  const sql = 'select payment_ref from duplicate_payments where reservation_id = $1 order by 1';
  return (await store.sql.query(sql, [id])).rows.map(({ payment_ref }) => payment_ref);
}

test('a promise that Postgres refuses is reported, and keeps no other from it', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2 });
  const [first, second] = [await campaign.take('ann'), await campaign.take('bob')];
  await loseJournal();
  await store.sql.query('update campaigns set total_limit = 1 where campaign_id = $1', [campaign.terms.id]);
  expect(await write(campaign)).toBe(1);
  const [refused] = (await store.redemption(first)) ? [second] : [first];
  expect(await store.redemption(refused)).toBeUndefined();
  expect(store.log.lines.map(({ fields }) => fields)).toContainEqual(
    expect.objectContaining({ reservation: refused, constraint: 'campaigns_cap' }),
  );
  expect((await campaign.inRedis()).reservations.get(refused)).toMatchObject({ state: 'reserved' });
  await store.sql.query('update campaigns set total_limit = 2 where campaign_id = $1', [campaign.terms.id]);
  expect(await write(campaign)).toBe(1);
});

test('the ledger counts units over the cap that Redis has promised and Postgres lacks', async () => {
  const campaign = await store.openCampaign({ totalLimit: 2 });
  const ids = [await campaign.take('ann'), await campaign.take('bob')];
  await store.persist();
  await store.sql.query('delete from redemptions where redemption_id = $1', [ids[1]]);
  expect(await store.verdictOf(campaign)).toMatchObject({ lost: 1, over_cap: 0 });
  await store.sql.query('update campaigns set total_limit = 1 where campaign_id = $1', [campaign.terms.id]);
  expect(await store.verdictOf(campaign)).toMatchObject({ lost: 1, over_cap: 1 });
});

test('nothing is written over a gap of the journal', async () => {
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann');
  const { differences } = await store.verdictOf(campaign);
  expect(differences).toEqual([]);
  await store.persist();
  await store.sql.query('delete from redemptions where redemption_id = $1', [id]);
  const found = (await store.verdictOf(campaign)).differences;
  await campaign.take('bob');
  await store.persist();
  await store.sql.query("update journal_cursor set last_id = regexp_replace(last_id, '[0-9]+$', '') || 0");
  const deps = { database: store.database, log: store.log, nowMs: () => Date.now() };
  await expect(writeLacking(deps, [store.part], campaign.product, found)).rejects.toThrow('no longer has all entries');
  expect(await store.redemption(id)).toBeUndefined();
  await store.sql.query('update journal_cursor set last_id = $1', [await sale.journal.lastId()]);
  expect(await write(campaign)).toBe(1);
});
