import { afterEach, describe, expect, test } from '@jest/globals';
import { RedemptionChains } from '../../commands/audit/redemption-chain.js';
import type { UserId } from '../../shared/domain/ids.js';
import { UserRows } from '../../shared/postgres/user-rows.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** Who changed which reservation, when and why, and hands that change what is written. */
const sale = await startSale();
const store = await startPersistence(sale);
const { sql } = store;
const chains = new RedemptionChains(store.database);
afterEach(() => sale.expectConsistent());

/** Reservations that end in each way, by users of these names. `persist`: called after each change. */
async function liveThrough(persist: () => Promise<void> = async () => {}) {
  const campaign = await store.openCampaign({ latePayment: 'reacquire', totalLimit: 10 });
  const ids: Record<string, string> = {};
  const take = async (user: string, options = {}) => {
    ids[user] = await campaign.take(user, options);
    await persist();
    return String(ids[user]);
  };
  const done = async (change: Promise<unknown>) => {
    await change;
    await persist();
  };
  const paid = await take('paid');
  await done(campaign.extend(paid));
  await done(campaign.confirm(paid, 'pay-1', '', 'stripe'));
  await done(campaign.confirm(paid, 'pay-2', '', 'stripe'));
  await done(campaign.refund(paid));
  await done(campaign.release(await take('released'), null, 'changed their mind', '', 0, 'olga'));
  await done(campaign.release(await take('part', { qty: 3 }), 'part', '', '', 1, 'shopper'));
  await campaign.letDeadlinePass(await take('late'));
  await done(campaign.expire());
  await done(campaign.confirm(String(ids.late), 'pay-3'));
  await done(campaign.void(await take('voided'), 'returns', 'a_reason'));
  await take('untouched');
  await store.persist();
  return { campaign, ids };
}

const historyOf = async ({ terms }: TestCampaign, id: unknown) =>
  (
    await sql.query<Record<string, unknown>>(
      `select kind, actor, reason, detail from redemption_history where campaign_id = $1 and reservation_id = $2
       order by batch, position`,
      [terms.id, id],
    )
  ).rows;
const verify = ({ terms }: TestCampaign, kept: string[] = []) => chains.verify(terms.id, 0, kept);

/** Changes rows as a superuser can. */
async function forge(statement: string, values: unknown[]): Promise<void> {
  const all = async (how: string) => {
    for (const table of ['redemption_history', 'redemption_links'])
      await sql.query(`alter table ${table} ${how} trigger user`);
  };
  await all('disable');
  const { rowCount } = await sql.query(statement, values);
  await all('enable');
  expect(rowCount).toBeGreaterThan(0);
}

test.each([
  ['one batch', async () => {}],
  ['a batch for each change', () => store.persist()],
])('each change is a row with who and why: in %s', async (_, persist) => {
  const { campaign, ids } = await liveThrough(persist);
  const at = expect.stringMatching(/^\d{4}-.*Z$/);
  const none = { actor: '', reason: null, detail: null };
  expect(await historyOf(campaign, ids.paid)).toEqual([
    { ...none, kind: 'extended', detail: { pay_before: at } },
    { ...none, kind: 'redeemed', actor: 'stripe', detail: { payment_ref: 'pay-1' } },
    { ...none, kind: 'paid_again', actor: 'stripe', detail: { payment_ref: 'pay-2' } },
    { ...none, kind: 'refunded', detail: { burned: false } },
  ]);
  expect(await historyOf(campaign, ids.released)).toEqual([
    { ...none, kind: 'released', actor: 'olga', reason: 'changed their mind' },
  ]);
  expect(await historyOf(campaign, ids.part)).toEqual([
    { ...none, kind: 'reduced', actor: 'shopper', detail: { qty_before: 3, qty: 1, ending: 'released' } },
  ]);
  expect(await historyOf(campaign, ids.late)).toEqual([
    { ...none, kind: 'expired' },
    { ...none, kind: 'redeemed', detail: { payment_ref: 'pay-3', reacquired: true } },
  ]);
  expect(await historyOf(campaign, ids.voided)).toEqual([{ ...none, kind: 'voided', reason: 'a_reason' }]);
  expect(await historyOf(campaign, ids.untouched)).toEqual([]);
  const report = await verify(campaign);
  expect(report).toMatchObject({ entries: 9, erased: 0, broken: null });
  expect(await chains.buckets(campaign.terms.id)).toEqual([0]);
  // Nothing new is nothing written.
  await store.persist();
  expect(await verify(campaign, [report.head])).toEqual({ ...report, kept: [report.head] });
});

test.each([
  ['before the first batch', '0, 0'],
  ['in a bucket that is not that of the reservation', '5, 1'],
])('no row can be made up %s', async (_, place) => {
  const { campaign } = await liveThrough();
  const insert = `insert into redemption_history (campaign_id, bucket, batch, position, reservation_id, journal_id, kind, at, actor)
    values ($1, ${place}, 1, '00000000-0000-0000-0000-000000000000', '1-1', 'redeemed', now(), '')`;
  await expect(sql.query(insert, [campaign.terms.id])).rejects.toThrow('violates check constraint');
});

test('a damaged history stops the worker, and voids nothing', async () => {
  const { campaign } = await liveThrough();
  const paid = await campaign.take('after');
  await campaign.confirm(paid, 'pay-9');
  await sql.query('alter table redemption_links add constraint damaged check (batch < 2) not valid');
  await expect(store.persist()).rejects.toThrow('damaged');
  await sql.query('alter table redemption_links drop constraint damaged');
  await store.persist();
  expect(await historyOf(campaign, paid)).toMatchObject([{ kind: 'redeemed' }]);
  expect(await verify(campaign)).toMatchObject({ broken: null });
});

test('it can only be added to', async () => {
  await liveThrough();
  for (const table of ['redemption_history', 'redemption_links'])
    for (const attempt of [`update ${table} set batch = batch`, `delete from ${table}`, `truncate ${table}`])
      await expect(sql.query(attempt)).rejects.toThrow(`${table} is append-only`);
});

describe('a row that is changed by hand is found', () => {
  const change = (set: string) => `update redemption_history set ${set} where campaign_id = $1 and kind = 'released'`;
  test.each([
    ['its actor', change(`actor = 'another'`)],
    ['its time', change(`at = at + interval '1 microsecond'`)],
    ['its kind', change(`kind = 'expired'`)],
    ['its reason', change(`reason = 'another'`)],
    ['its reason, without a salt', change(`reason = 'another', reason_salt = null`)],
    ['its reservation', change(`reservation_id = '00000000-0000-0000-0000-000000000000'`)],
    ['what changed', change(`detail = '{"qty": 2}'`)],
    [
      'its order',
      `update redemption_history set position = position + 100 where campaign_id = $1 and kind = 'redeemed'`,
    ],
    ['removed', `delete from redemption_history where campaign_id = $1 and kind = 'released'`],
    [
      'made up',
      `insert into redemption_history (campaign_id, bucket, batch, position, reservation_id, journal_id, kind, at, actor)
       values ($1, 0, 1, 1000, '00000000-0000-0000-0000-000000000000', '1-1', 'redeemed', now(), '')`,
    ],
    [
      'made up behind the last',
      `insert into redemption_history (campaign_id, bucket, batch, position, reservation_id, journal_id, kind, at, actor)
       values ($1, 0, 1000, 1, '00000000-0000-0000-0000-000000000000', '1-1', 'redeemed', now(), '')`,
    ],
    ['its link', `update redemption_links set link = sha256('x') where campaign_id = $1`],
    ['all links', 'delete from redemption_links where campaign_id = $1'],
  ])('%s', async (_, statement) => {
    const { campaign } = await liveThrough();
    await forge(statement, [campaign.terms.id]);
    expect((await verify(campaign)).broken).toMatchObject({ batch: expect.any(Number) });
  });

  test('batches that are removed', async () => {
    const { campaign } = await liveThrough(() => store.persist());
    const { head } = await verify(campaign);
    const remove = async (which: string) => {
      for (const table of ['redemption_history', 'redemption_links'])
        await forge(`delete from ${table} where campaign_id = $1 and ${which}`, [campaign.terms.id]);
    };
    await remove('batch > 7');
    // At the end, only a head that was kept shows it.
    expect(await verify(campaign, [head])).toMatchObject({ broken: null, kept: [], entries: 7 });
    await remove('batch = 3');
    expect((await verify(campaign)).broken).toMatchObject({ batch: 3 });
  });
});

test('an erasure removes the reason, and the chain stays whole', async () => {
  const { campaign, ids } = await liveThrough();
  const rows = new UserRows(store.database, async () => {});
  await store.database.transaction((client) =>
    rows.eraseClaims(
      client,
      'redemptions',
      campaign.terms.id,
      { user: 'released' as UserId, pseudonym: 'erased-1' as UserId },
      [String(ids.released)],
    ),
  );
  expect(await historyOf(campaign, ids.released)).toMatchObject([{ kind: 'released', actor: 'olga', reason: null }]);
  const { rows: salts } = await sql.query(
    'select reason_salt from redemption_history where campaign_id = $1 and reservation_id = $2',
    [campaign.terms.id, ids.released],
  );
  expect(salts).toEqual([{ reason_salt: null }]);
  expect(await verify(campaign)).toMatchObject({ broken: null, erased: 1, entries: 9 });
});
