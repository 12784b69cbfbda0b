import { afterEach, expect, test } from '@jest/globals';
import type { Campaign } from '../../../shared/domain/campaign.js';
import { decodeIdempotencyRecord } from '../../../shared/redis/idempotency-record.js';
import { keys } from '../../../shared/redis/keys.js';
import { newKey, type TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

/** Codes that people come with. */
const sale = await startSale();
afterEach(() => sale.expectConsistent());

const openCoded = (terms: Partial<Campaign> = {}) => sale.openCampaign({ type: 'unique', codes: 9, ...terms });

/** The user who may use code 1 now; null when it is used. */
async function nextUserOf(campaign: TestCampaign): Promise<string | null> {
  const outcome = await campaign.redeem('next', 1);
  return outcome.kind === 'code_used' ? null : outcome.kind;
}

test('a shared campaign counts units and no code', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, termsVersion: 7 });
  const outcome = await campaign.redeem('ann', 0, { order: 'cart-1' });
  expect(outcome).toMatchObject({ kind: 'reserved', orderId: 'cart-1', code: null, terms: 7 });
  await campaign.use('bob', 0);
  expect(await campaign.usedCodes()).toEqual([]);
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'reserved', user: 'bob', code: null, terms: 7 }]);
  expect((await campaign.redeem('cid', 0)).kind).toBe('queued');
});

test('uses the code that was brought, in the reply, the record and the journal', async () => {
  const campaign = await openCoded();
  const key = newKey();
  const outcome = await campaign.redeem('ann', 5, { order: 'cart-1', key });
  if (outcome.kind !== 'reserved') throw new Error(outcome.kind);
  expect(outcome).toMatchObject({ code: 5, terms: 1, orderId: 'cart-1' });
  expect(await campaign.reservation(outcome.reservationId)).toMatchObject({ state: 'reserved', code: '5' });
  const { no } = campaign.terms;
  const answer = `${no}|1|ann|R|5|cart-1|C|${outcome.reservationId}|cart-1|${outcome.dueMs}|t1|0|5|1`;
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'reserved', code: 5, terms: 1, key, answer }]);
  expect(await campaign.standing('ann')).toMatchObject({ status: 'completed', code: 5 });
});

test('a code is free again after a release', async () => {
  const campaign = await openCoded();
  const id = await campaign.use('ann', 1);
  expect(await nextUserOf(campaign)).toBeNull();
  await campaign.release(id);
  expect(await campaign.usedCodes()).toEqual([]);
  expect(await nextUserOf(campaign)).toBe('reserved');
});

test('a code is free again after its deadline, when the sweep has come', async () => {
  const campaign = await openCoded();
  await campaign.letDeadlinePass(await campaign.use('ann', 1));
  expect(await nextUserOf(campaign)).toBeNull();
  await campaign.expire();
  expect(await nextUserOf(campaign)).toBe('reserved');
});

test('a code is free again after a refund that returns the unit', async () => {
  const campaign = await openCoded({ refundPolicy: 'return' });
  const id = await campaign.use('ann', 1);
  await campaign.confirm(id);
  expect(await nextUserOf(campaign)).toBeNull();
  await campaign.refund(id);
  expect(await nextUserOf(campaign)).toBe('reserved');
});

test('a refund that burns the unit burns the code', async () => {
  const campaign = await openCoded({ refundPolicy: 'burn' });
  const id = await campaign.use('ann', 1);
  await campaign.confirm(id);
  await campaign.refund(id);
  expect(await nextUserOf(campaign)).toBeNull();
  expect(await campaign.usedCodes()).toEqual([1]);
});

test('a waiting user keeps the code until they are served', async () => {
  const campaign = await openCoded({ totalLimit: 1 });
  const id = await campaign.use('ann', 2);
  expect((await campaign.redeem('bob', 1, { order: 'cart-b' })).kind).toBe('queued');
  expect(await campaign.person('bob')).toMatchObject({ state: 'queued', code: '1', order: 'cart-b' });
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'queued', user: 'bob', code: 1 }]);
  expect(await campaign.usedCodes()).toEqual([1, 2]);
  expect(await nextUserOf(campaign)).toBeNull();
  await campaign.release(id);
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted', orderId: 'cart-b', code: 1 });
  expect(await campaign.lastEntries(1)).toMatchObject([
    { kind: 'reserved', user: 'bob', lineNo: 1, code: 1, terms: 1 },
  ]);
  expect(await campaign.usedCodes()).toEqual([1]);
});

test('a user who leaves the line gives the code back', async () => {
  const campaign = await openCoded({ totalLimit: 0 });
  await campaign.redeem('bob', 1);
  expect(await nextUserOf(campaign)).toBeNull();
  await campaign.leave('bob');
  expect(await campaign.person('bob')).toMatchObject({ state: 'left', code: '' });
  expect(await campaign.usedCodes()).toEqual([]);
  expect(await nextUserOf(campaign)).toBe('queued');
});

test('a waiting user who sends another code keeps the place, and the other code stays free', async () => {
  const campaign = await openCoded({ totalLimit: 0, requireToken: true });
  const once = (nonce: string) => ({ nonce, expiresAtMs: Date.now() + 60_000 });
  await campaign.redeem('bob', 1, { once: once('first') });
  expect(await campaign.redeem('bob', 2, { once: once('second') })).toMatchObject({ kind: 'waiting', position: 1 });
  expect(await campaign.usedCodes()).toEqual([1]);
  expect(await sale.redis.exists(keys.once(campaign.product, 'second'))).toBe(0);
});

test('the codes of a line that was closed stay with those who waited', async () => {
  const campaign = await openCoded({ totalLimit: 0 });
  await campaign.redeem('bob', 1);
  await campaign.setStatus('close');
  expect(await campaign.standing('bob')).toMatchObject({ status: 'closed', code: null });
  expect(await campaign.usedCodes()).toEqual([1]);
});

test('a late payment gets its code again when no user has used it', async () => {
  const campaign = await openCoded({ latePayment: 'reacquire' });
  const id = await campaign.use('ann', 1);
  await campaign.letDeadlinePass(id);
  await campaign.expire();
  expect(await campaign.usedCodes()).toEqual([]);
  expect(await campaign.confirm(id)).toMatchObject({ kind: 'redeemed', reacquired: true });
  expect(await campaign.usedCodes()).toEqual([1]);
  expect(await nextUserOf(campaign)).toBeNull();
});

test('a late payment whose sweep has not come keeps its code in the same call', async () => {
  const campaign = await openCoded({ latePayment: 'reacquire' });
  const id = await campaign.use('ann', 1);
  await campaign.letDeadlinePass(id);
  expect(await campaign.confirm(id)).toMatchObject({ kind: 'redeemed', reacquired: true });
  expect(await campaign.usedCodes()).toEqual([1]);
});

test('a late payment whose code another user has used meanwhile is refused, although units are free', async () => {
  const campaign = await openCoded({ latePayment: 'reacquire' });
  const id = await campaign.use('ann', 1);
  await campaign.release(id);
  await campaign.use('bob', 1);
  expect(await campaign.confirm(id)).toMatchObject({ kind: 'ended', state: 'released' });
  expect(await campaign.stock()).toMatchObject({ free: 9, held: 1, redeemed: 0 });
  expect(await campaign.usedCodes()).toEqual([1]);
});

test('a voided redemption gives its code back, and its unit to the line', async () => {
  const campaign = await openCoded({ totalLimit: 1 });
  const id = await campaign.use('ann', 1);
  await campaign.redeem('bob', 2);
  expect(await campaign.void(id, 'returns')).toEqual({ kind: 'voided' });
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted', code: 2 });
  expect(await campaign.usedCodes()).toEqual([2]);
});

test('a redemption voided for a cap that Postgres has reached gives its code back and no unit', async () => {
  const campaign = await openCoded({ totalLimit: 2 });
  await campaign.void(await campaign.use('ann', 1), 'never_existed');
  expect(await campaign.usedCodes()).toEqual([]);
  expect(await campaign.stock()).toMatchObject({ total: 1, free: 1 });
});

test('a redemption voided because Postgres has another use of its code gives the unit back and leaves the code used', async () => {
  const campaign = await openCoded({ totalLimit: 1 });
  const id = await campaign.use('ann', 1);
  await campaign.redeem('bob', 2);
  expect(await campaign.void(id, 'code_used')).toEqual({ kind: 'voided' });
  expect(await campaign.void(id, 'code_used')).toEqual({ kind: 'voided' });
  expect(await campaign.reservation(id)).toMatchObject({ state: 'voided', code: '' });
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted', code: 2 });
  expect(await campaign.usedCodes()).toEqual([1, 2]);
  expect(await nextUserOf(campaign)).toBeNull();
  // Used by a row that only Postgres has, as the audit says.
  expect(await sale.audit()).toEqual([`${campaign.product}: the set of used codes is [1,2], not [2]`]);
});

test('a repeated key gives the first answer, for the same code and order only', async () => {
  const campaign = await openCoded({ perUserLimit: 9 });
  const key = newKey();
  const first = await campaign.redeem('ann', 1, { key, order: 'cart-1' });
  if (first.kind !== 'reserved') throw new Error(first.kind);
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  const again = await campaign.redeem('ann', 1, { key, order: 'cart-1' });
  const { no } = campaign.terms;
  expect(again).toMatchObject({
    kind: 'replayed',
    no,
    answer: `C|${first.reservationId}|cart-1|${first.dueMs}|t1|0|1|1`,
  });
  expect(decodeIdempotencyRecord(again.kind === 'replayed' ? again.answer : '')).toMatchObject({ code: 1, terms: 1 });
  const reused = { kind: 'key_reused' };
  expect(await campaign.redeem('ann', 2, { key, order: 'cart-1' })).toEqual(reused);
  expect(await campaign.redeem('ann', 11, { key, order: 'cart-1' })).toEqual(reused);
  expect(await campaign.redeem('ann', 1, { key, order: 'cart-11' })).toEqual(reused);
  expect(await campaign.redeem('ann', 1, { key })).toEqual(reused);
  expect(await campaign.redeem('bob', 1, { key, order: 'cart-1' })).toEqual({ kind: 'code_used' });
  expect(await campaign.redeem('ann', 1, { key, order: 'cart-1', qty: 2 })).toEqual(reused);
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('a redemption and a checkout are two requests, whichever had the key first', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', codes: 9, perUserLimit: 9, totalLimit: 2 });
  const [redeemed, checkedOut, queuedBy, queuedFor] = [newKey(), newKey(), newKey(), newKey()];
  await campaign.use('ann', 1, { key: redeemed });
  await campaign.take('ann', { key: checkedOut });
  expect((await campaign.redeem('bob', 5, { key: queuedBy })).kind).toBe('queued');
  expect((await campaign.checkout('cid', { key: queuedFor })).kind).toBe('queued');
  const before = await campaign.inRedis();
  const reused = { kind: 'key_reused' };
  expect(await campaign.checkout('ann', { key: redeemed })).toEqual(reused);
  expect(await campaign.redeem('ann', 2, { key: checkedOut })).toEqual(reused);
  expect(await campaign.redeem('ann', 0, { key: checkedOut })).toEqual(reused);
  expect(await campaign.checkout('bob', { key: queuedBy })).toEqual(reused);
  expect(await campaign.redeem('cid', 5, { key: queuedFor })).toEqual(reused);
  expect(await campaign.inRedis()).toEqual(before);
});

test('only what succeeds uses a one-time token up, for as long as it would have been good', async () => {
  const campaign = await openCoded({ totalLimit: 2, requireToken: true, ...withLine(1) });
  const once = { nonce: 'one', expiresAtMs: (await sale.nowMs()) + 60_000 };
  const onceKey = keys.once(campaign.product, 'one');
  const unused = async () => expect(await sale.redis.exists(onceKey)).toBe(0);
  await campaign.use('ann', 1, { once: { ...once, nonce: 'of-ann' } });
  await campaign.use('eve', 7, { once: { ...once, nonce: 'of-eve' } });
  expect((await campaign.redeem('bob', 1, { once })).kind).toBe('code_used');
  await unused();
  expect((await campaign.redeem('ann', 2, { once })).kind).toBe('limit_reached');
  await unused();
  expect((await campaign.redeem('bob', 2, { once, terms: -1 })).kind).toBe('audience_mismatch');
  await unused();
  const full = campaign.through(sale.storeWith({ journalLimitEntries: 0 }));
  expect((await full.redeem('bob', 2, { once })).kind).toBe('journal_full');
  await unused();
  expect((await campaign.redeem('bob', 2, { once })).kind).toBe('queued');
  const ttl = await sale.redis.pttl(onceKey);
  expect(ttl > 50_000 && ttl <= 60_000).toBe(true);
  expect((await campaign.redeem('cid', 3, { once })).kind).toBe('token_used');
  const another = { ...once, nonce: 'two' };
  expect((await campaign.redeem('cid', 3, { once: another })).kind).toBe('line_full');
  expect(await sale.redis.exists(keys.once(campaign.product, 'two'))).toBe(0);
});

test('gives a code to exactly one of a thousand who redeem it at once', async () => {
  const campaign = await openCoded({ totalLimit: 1_000 });
  const outcomes = await Promise.all(Array.from({ length: 1_000 }, (_, i) => campaign.redeem(`user-${i}`, 1)));
  expect(outcomes.filter(({ kind }) => kind === 'reserved').length).toBe(1);
  expect(outcomes.filter(({ kind }) => kind === 'code_used').length).toBe(999);
});

function withLine(maxSize: number): Partial<Campaign> {
  return { waitingRoom: { enabled: true, maxSize, presenceSeconds: null } };
}
