import { afterEach, expect, test } from '@jest/globals';
import { campaignKeys, keys } from '../../shared/redis/keys.js';
import { SaleStore } from '../../shared/sale/sale-store.js';
import { UnpersistedPromises } from '../../shared/sale/unpersisted-promises.js';
import { restoreCampaign } from '../../worker/recovery/restore-campaign.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale, TEST_LIMITS } from '../harness/sale.js';

/** Payments of what is paid, on their way to Postgres and back. */
const sale = await startSale();
const store = await startPersistence(sale);
afterEach(() => sale.expectConsistent());

const STRANGE = 'ref \\ | " € \u{1F4B3}';

async function take(...payments: string[]): Promise<{ campaign: TestCampaign; id: string }> {
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann');
  for (const payment of payments) await campaign.confirm(id, payment);
  return { campaign, id };
}

/** The first reference, the others in their order, and those that events were made of. */
async function kept(id: string): Promise<[string | null, string[], [string, string][]]> {
  const { rows } = await store.sql.query('select payment_ref from redemptions where redemption_id = $1', [id]);
  const { rows: others } = await store.sql.query(
    'select payment_ref from duplicate_payments where reservation_id = $1 order by paid_at, payment_ref',
    [id],
  );
  const { rows: events } = await store.sql.query(
    "select data from outbox_events where subject = $1 and type = 'dev.doorbuster.payment.duplicated.v1' order by seq",
    [id],
  );
  return [
    rows[0]?.payment_ref ?? null,
    others.map(({ payment_ref }) => payment_ref),
    events.map(({ data }) => [data.already_paid_by, data.payment_ref]),
  ];
}

test('Persist keeps every reference, and makes one event of each but the first', async () => {
  const { id } = await take('pay-1', STRANGE, STRANGE, 'pay-1', '', 'pay-3');
  await store.persist();
  const all = [
    ['pay-1', STRANGE],
    ['pay-1', 'pay-3'],
  ];
  expect(await kept(id)).toEqual(['pay-1', [STRANGE, 'pay-3'], all]);
  const { rows } = await store.sql.query(
    "select data from outbox_events where subject = $1 and type = 'dev.doorbuster.payment.duplicated.v1' order by seq limit 1",
    [id],
  );
  expect(rows[0]?.data).toMatchObject({ reservation_id: id, user_id: 'ann', order_id: expect.any(String), qty: 1 });
});

test('Persist keeps every reference, also each in a batch of its own, and after the refund', async () => {
  const { campaign, id } = await take('pay-1');
  await store.persist();
  await campaign.confirm(id, 'pay-2');
  await store.persist();
  await campaign.refund(id);
  await store.persist();
  expect(await kept(id)).toEqual(['pay-1', ['pay-2'], [['pay-1', 'pay-2']]]);
});

test('Persist takes a reference that comes after a payment without one as the first', async () => {
  const { campaign, id } = await take('', 'pay-1');
  await store.persist();
  expect(await kept(id)).toEqual(['pay-1', [], []]);
  await campaign.confirm(id, 'pay-2');
  await store.persist();
  expect(await kept(id)).toEqual(['pay-1', ['pay-2'], [['pay-1', 'pay-2']]]);
});

test('Persist keeps both where Redis did not know the first, as after an update from a version that kept none', async () => {
  const { campaign, id } = await take('pay-1');
  await sale.redis.unlink(keys.payments(campaign.product));
  expect(await campaign.confirm(id, 'pay-1')).toMatchObject({ paidBy: '' });
  await sale.redis.unlink(keys.payments(campaign.product));
  await campaign.confirm(id, 'pay-2');
  await store.persist();
  expect((await kept(id)).slice(0, 2)).toEqual(['pay-1', ['pay-2']]);
});

test('a Redis that is filled from Postgres knows them', async () => {
  const { campaign, id } = await take('pay-1', STRANGE);
  await store.persist();
  await sale.redis.del(...campaignKeys(campaign.product), keys.payments(campaign.product));
  const stored = await store.campaigns.find(campaign.product);
  if (!stored) throw new Error('the campaign is not in Postgres');
  const { database, cursor, log } = store;
  const parts = { database, cursor, log, sale: sale.store, ...TEST_LIMITS };
  await sale.fill(async (token) => restoreCampaign(parts, stored, await sale.nowMs(), token));
  const last = await sale.journal.lastId();
  expect(await campaign.confirm(id, STRANGE)).toMatchObject({ paidBy: 'pay-1' });
  expect(await campaign.confirm(id, 'pay-1')).toMatchObject({ paidBy: '' });
  expect(await sale.journal.lastId()).toBe(last);
});

test('a reference that Redis lost is written from the entries that the process kept', async () => {
  const promises = new UnpersistedPromises(100);
  const { campaign, id } = await take('pay-1');
  await store.persist();
  await campaign.through(new SaleStore(sale.store.scripts, TEST_LIMITS, promises)).confirm(id, 'pay-2');
  await store.loseJournal(promises.after('0-0', Number.POSITIVE_INFINITY, 100));
  expect(await kept(id)).toEqual(['pay-1', ['pay-2'], [['pay-1', 'pay-2']]]);
});
