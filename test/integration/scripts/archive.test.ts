import { expect, test } from '@jest/globals';
import type { IdempotencyKey, UserId } from '../../../shared/domain/ids.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import { CampaignArchive, type CountedRows } from '../../../shared/sale/campaign-archive.js';
import { newKey, type TestCampaign } from '../../harness/campaign.js';
import { keyNames } from '../../harness/key-names.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
const archive = new CampaignArchive(sale.store.scripts);
const NO_PAUSE = { entries: 500, graceMs: 0, restMs: 0 };

type Options = { committed?: string; counted?: CountedRows | null; limits?: Partial<typeof NO_PAUSE> };
/** As if Postgres had all current entries of the journal, unless a test overrides it. */
async function tryArchive(campaign: TestCampaign, { committed, counted = null, limits = {} }: Options = {}) {
  const upTo = committed ?? (await sale.journal.lastId());
  return archive.archive(campaign.product, upTo, counted, { ...NO_PAUSE, ...limits });
}

const ONE_PAID: CountedRows = { redeemed: 1, burned: 0, reservations: 1 };

/** Closed, with one unit paid by ann. */
async function closedCampaign(): Promise<TestCampaign> {
  const campaign = await sale.openCampaign();
  await campaign.confirm(await campaign.take('ann', { key: `${campaign.product}-ann` }));
  await campaign.setStatus('close');
  return campaign;
}

const keysOf = async (campaign: TestCampaign) => (await keyNames(sale.redis, `*${campaign.product}*`)).sort();

test('archive leaves the hash of the campaign only, with its counters, and names the pass', async () => {
  const campaign = await closedCampaign();
  const { fields } = await campaign.inRedis();
  const last = await sale.journal.lastId();
  expect(await tryArchive(campaign)).toEqual({ kind: 'ready' });
  expect(await keysOf(campaign)).toHaveLength(4);
  expect(await tryArchive(campaign, { counted: ONE_PAID })).toEqual({ kind: 'archived', forgotten: '' });
  expect(await keysOf(campaign)).toEqual([`db1:i:ann|${campaign.product}-ann`, keys.campaign(campaign.product)].sort());
  const { archived, ...rest } = (await campaign.inRedis()).fields;
  expect(rest).toEqual({ ...fields, promised: '1' });
  expect(archived).toMatch(new RegExp(`^${last}@\\d+$`));
  expect(await tryArchive(campaign)).toEqual({ kind: 'unchanged', forgotten: '' });
  expect(await sale.journal.lastId()).toBe(last);
});

test('archive keeps the bits of used codes, since they are needed by late payments and cost nothing', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', codes: 9 });
  await campaign.confirm(await campaign.use('ann', 7));
  await campaign.setStatus('close');
  expect(await tryArchive(campaign, { counted: ONE_PAID })).toMatchObject({ kind: 'archived' });
  expect(await campaign.usedCodes()).toEqual([7]);
  expect(await keysOf(campaign)).toEqual([keys.campaign(campaign.product), keys.usedCodes(campaign.product)].sort());
});

test('archive waits anew in a Redis that was refilled: what Postgres has may be set back', async () => {
  const campaign = await sale.openCampaign({ status: 'closed' });
  const nothing: CountedRows = { redeemed: 0, burned: 0, reservations: 0 };
  const grace = { graceMs: 30_000 };
  expect(await tryArchive(campaign, { counted: nothing, limits: grace })).toEqual({ kind: 'early' });
  expect(await tryArchive(campaign, { counted: nothing })).toMatchObject({ kind: 'archived' });
});

test('archive refuses a campaign that is open, paused, or has a unit held', async () => {
  const open = await sale.openCampaign();
  expect(await tryArchive(open)).toEqual({ kind: 'not_closed' });
  await open.setStatus('pause');
  expect(await tryArchive(open)).toEqual({ kind: 'not_closed' });
  await open.setStatus('resume');
  const held = await open.take('ann');
  await open.setStatus('close');
  const before = await open.inRedis();
  expect(await tryArchive(open, { counted: { redeemed: 0, burned: 0, reservations: 1 } })).toEqual({ kind: 'held' });
  expect(await open.inRedis()).toEqual(before);
  await open.confirm(held);
  expect(await tryArchive(open, { counted: ONE_PAID })).toMatchObject({ kind: 'archived' });
});

test('archive refuses while Postgres lacks an entry of it, but not for those of others', async () => {
  const campaign = await sale.openCampaign();
  const paid = await campaign.take('ann');
  await campaign.setStatus('close');
  const committed = await sale.journal.lastId();
  await campaign.confirm(paid);
  expect(await tryArchive(campaign, { committed, counted: ONE_PAID })).toEqual({ kind: 'unsettled' });
  const settled = await sale.journal.lastId();
  const other = await sale.openCampaign();
  for (const user of ['bob', 'cid', 'dan']) await other.take(user);
  expect(await tryArchive(campaign, { committed: settled, counted: ONE_PAID, limits: { entries: 2 } })).toEqual({
    kind: 'busy',
  });
  expect((await campaign.inRedis()).people.size).toBe(1);
  expect(await tryArchive(campaign, { committed: settled, counted: ONE_PAID, limits: { entries: 3 } })).toMatchObject({
    kind: 'archived',
  });
});

test('archive refuses while Postgres has another number of units or reservations', async () => {
  const campaign = await closedCampaign();
  const others = [
    { ...ONE_PAID, redeemed: 0 },
    { ...ONE_PAID, burned: 1 },
    { ...ONE_PAID, reservations: 0 },
    { ...ONE_PAID, reservations: 2 },
  ];
  for (const counted of others)
    expect([counted, await tryArchive(campaign, { counted })]).toEqual([counted, { kind: 'differs' }]);
  expect((await campaign.inRedis()).reservations.size).toBe(1);
});

test('archive leaves a campaign alone for a while after it was closed, and after a recall', async () => {
  const campaign = await closedCampaign();
  const grace = { graceMs: 30_000 };
  expect(await tryArchive(campaign, { counted: ONE_PAID, limits: grace })).toEqual({ kind: 'early' });
  await campaign.set({ closed_at: (await sale.nowMs()) - 30_000 });
  expect(await tryArchive(campaign, { counted: ONE_PAID, limits: grace })).toMatchObject({ kind: 'archived' });
  await recallAnn(campaign, await passOf(campaign));
  const rest = { restMs: 60_000 };
  expect(await tryArchive(campaign, { limits: rest })).toEqual({ kind: 'early' });
  await campaign.set({ recalled_at: (await sale.nowMs()) - 60_000 });
  expect(await tryArchive(campaign, { limits: rest })).toMatchObject({ kind: 'archived' });
  expect((await campaign.inRedis()).people.size).toBe(0);
  expect(await tryArchive(campaign, { limits: rest })).toMatchObject({ kind: 'unchanged' });
});

const ANNS = {
  state: 'held' as const,
  inLine: false,
  slots: [1],
  lineNo: 0,
  qty: 1,
  reservationId: '01890a5d-ac96-774b-bcce-b302099a8057',
  orderId: '',
  code: null,
};
const RECORD = {
  state: 'redeemed' as const,
  user: 'ann',
  qty: 1,
  slot: 1,
  dueMs: 1,
  lineNo: 0,
  orderId: 'o',
  code: null,
};
const recallAnn = (campaign: TestCampaign, pass: string, record = RECORD, payments: readonly string[] = []) => {
  const references = new Map(payments.length > 0 ? [[ANNS.reservationId, payments] as const] : []);
  return archive.restoreUser(
    campaign.product,
    pass,
    'ann' as UserId,
    ANNS,
    new Map([[ANNS.reservationId, record]]),
    references,
  );
};
const passOf = async (campaign: TestCampaign) => String((await campaign.inRedis()).fields.archived);

test('recall restores the payment references of a reservation, and archive removes them', async () => {
  const campaign = await closedCampaign();
  await campaign.confirm(ANNS.reservationId, 'pay-1');
  await tryArchive(campaign, { counted: ONE_PAID });
  expect(await sale.redis.exists(keys.payments(campaign.product))).toBe(0);
  await recallAnn(campaign, await passOf(campaign), RECORD, ['pay-1', 'pay-2']);
  expect(await campaign.confirm(ANNS.reservationId, 'pay-1')).toMatchObject({ paidBy: '' });
  const last = await sale.journal.lastId();
  expect(await campaign.confirm(ANNS.reservationId, 'pay-2')).toMatchObject({ paidBy: 'pay-1' });
  expect(await sale.journal.lastId()).toBe(last);
});

test('recall restores a user once, and keeps existing records', async () => {
  const campaign = await closedCampaign();
  await tryArchive(campaign, { counted: ONE_PAID });
  const pass = await passOf(campaign);
  expect(await recallAnn(campaign, pass)).toEqual({ kind: 'recalled' });
  expect(await campaign.refund(ANNS.reservationId)).toMatchObject({ kind: 'refunded' });
  expect(await recallAnn(campaign, pass)).toEqual({ kind: 'recalled' });
  expect(await campaign.reservation(ANNS.reservationId)).toMatchObject({ state: 'refunded' });
  expect((await campaign.person('ann'))?.slots).toEqual([]);
});

test('a recall that was read before another pass writes nothing', async () => {
  const campaign = await closedCampaign();
  await tryArchive(campaign, { counted: ONE_PAID });
  const early = await passOf(campaign);
  await recallAnn(campaign, early);
  await campaign.refund(ANNS.reservationId);
  await tryArchive(campaign);
  expect(await passOf(campaign)).not.toBe(early);
  expect(await recallAnn(campaign, early)).toEqual({ kind: 'late' });
  expect((await campaign.inRedis()).reservations.size).toBe(0);
  expect(await recallAnn(await sale.openCampaign(), early)).toEqual({ kind: 'late' });
});

test('an answer is forgotten when it is of this campaign, and how far that is done is kept', async () => {
  const campaign = await closedCampaign();
  const key = { user: 'ann', key: `${campaign.product}-ann` };
  expect(await archive.evictResponse(campaign.product, key, '')).toEqual({ kind: 'not_archived' });
  await tryArchive(campaign, { counted: ONE_PAID });
  const other = await sale.openCampaign();
  const others = { user: 'bob', key: newKey() };
  const nobodys = { user: 'eve', key: key.key };
  await other.take('bob', { key: others.key });
  expect(await archive.evictResponse(campaign.product, others, '')).toEqual({ kind: 'forgotten', removed: false });
  expect(await archive.evictResponse(campaign.product, nobodys, '')).toEqual({ kind: 'forgotten', removed: false });
  // The key has a record of another campaign as well, which has come from another shard.
  const record = keys.idempotency('ann' as UserId, key.key as IdempotencyKey);
  const own = String(await sale.redis.get(record));
  await sale.redis.set(record, `${other.terms.no}|another\n${own}`, 'KEEPTTL');
  expect(await archive.evictResponse(campaign.product, key, '')).toEqual({ kind: 'forgotten', removed: false });
  await sale.redis.set(record, own, 'KEEPTTL');
  expect(await archive.evictResponse(campaign.product, key, '')).toEqual({ kind: 'forgotten', removed: true });
  expect(await tryArchive(campaign)).toEqual({ kind: 'unchanged', forgotten: '' });
  expect(await archive.evictResponse(campaign.product, null, 'redemptions 7')).toEqual({
    kind: 'forgotten',
    removed: false,
  });
  expect(await tryArchive(campaign)).toEqual({ kind: 'unchanged', forgotten: 'redemptions 7' });
  expect(await other.checkout('bob', { key: others.key })).toMatchObject({ kind: 'replayed' });
});

test('archive finds no campaign for an unknown product', async () => {
  const unknown = sale.unknownCampaign();
  const calls = [
    () => tryArchive(unknown),
    () => recallAnn(unknown, '1-1@1'),
    () => archive.evictResponse(unknown.product, null, 'done'),
  ];
  for (const call of calls) expect(await call()).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(async () => {
    for (const call of calls) await expect(call()).rejects.toThrow(EngineUnavailable);
  });
  expect((await unknown.inRedis()).fields).toEqual({});
});

test('every reply of the scripts has come in this file', () => {
  expect(['archive', 'restore_user', 'evict_response'].map((script) => sale.unmetReplies(script))).toEqual([
    [],
    [],
    [],
  ]);
});
