import { afterEach, describe, expect, test } from '@jest/globals';
import type { Campaign } from '../../../shared/domain/campaign.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import type { CouponClaim } from '../../../shared/sale/reserve-input.js';
import type { CheckoutOptions, TestCampaign } from '../../harness/campaign.js';
import { newKey } from '../../harness/campaign.js';
import { startSale, TEST_LIMITS } from '../../harness/sale.js';

const sale = await startSale();
const noRoom = { enabled: false, maxSize: 1, presenceSeconds: null };
afterEach(() => sale.expectConsistent());

/** Expects that a checkout is refused like this and leaves nothing behind, not even the memory of its key. */
async function expectRefusal(
  campaign: TestCampaign,
  user: string,
  options: CheckoutOptions,
  outcome: object,
): Promise<void> {
  const key = newKey();
  const before = [await campaign.inRedis(), await sale.journal.lastId()];
  expect(await campaign.checkout(user, { key, ...options })).toEqual(outcome);
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual(before);
  expect(await sale.redis.exists(keys.idempotency(user as never, key as never))).toBe(0);
}

const claimOf = (code: number, { once = null }: Partial<CouponClaim> = {}): CouponClaim => ({ code, once });

test('refuses a key that the user has used for another quantity or campaign', async () => {
  const campaign = await sale.openCampaign();
  const other = await sale.openCampaign();
  const key = newKey();
  await campaign.take('ann', { key, qty: 1 });
  const reused = { kind: 'key_reused' };
  expect(await campaign.checkout('ann', { key, qty: 2 })).toEqual(reused);
  expect(await campaign.checkout('ann', { key, qty: 10 })).toEqual(reused);
  expect(await other.checkout('ann', { key })).toEqual(reused);
});

test('leaves a user every key that another user or an operator has used', async () => {
  const campaign = await sale.openCampaign();
  const [key, operatorsKey] = [newKey(), newKey()];
  await campaign.take('ann', { key });
  await campaign.restock(1, { key: operatorsKey });
  expect(await campaign.checkout('bob', { key })).toMatchObject({ kind: 'reserved' });
  expect(await campaign.checkout('cid', { key: operatorsKey })).toMatchObject({ kind: 'reserved' });
});

test('finds neither a product without a campaign nor a draft', async () => {
  await expectRefusal(sale.unknownCampaign(), 'ann', {}, { kind: 'not_found' });
  await expectRefusal(await sale.openCampaign({ status: 'draft' }), 'ann', {}, { kind: 'not_found' });
});

test('says that Redis is being rebuilt rather than that a campaign is unknown while there is no epoch', async () => {
  await sale.withoutEpoch(async () => {
    await expect(sale.unknownCampaign().checkout('ann')).rejects.toThrow(EngineUnavailable);
  });
});

test('refuses before, during and after: not started, paused, closed, over its end', async () => {
  const startsAt = new Date(Date.now() + 3_600_000);
  const scheduled = await sale.openCampaign({ status: 'scheduled', startsAt });
  const outcome = await scheduled.checkout('ann');
  expect(outcome).toEqual({ kind: 'not_started', startsAtMs: startsAt.getTime(), nowMs: expect.any(Number) });
  await expectRefusal(await sale.openCampaign({ status: 'paused' }), 'ann', {}, { kind: 'paused' });
  await expectRefusal(await sale.openCampaign({ status: 'closed' }), 'ann', {}, { kind: 'ended' });
  await expectRefusal(await sale.openCampaign({ endsAt: new Date(Date.now() - 1_000) }), 'ann', {}, { kind: 'ended' });
});

test('refuses more than the campaign allows: quantity, allowances, an empty stock without a line, a full line', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3, maxQty: 2 });
  await expectRefusal(campaign, 'ann', { qty: 3 }, { kind: 'qty_above_max', maxQty: 2 });
  await campaign.confirm(await campaign.take('ann'));
  await expectRefusal(campaign, 'ann', {}, { kind: 'limit_reached' });
  await campaign.take('bob');
  await expectRefusal(campaign, 'bob', {}, { kind: 'limit_reached' });

  const withoutLine = await sale.openCampaign({
    totalLimit: 2,
    waitingRoom: { enabled: false, maxSize: 9, presenceSeconds: null },
  });
  await withoutLine.take('ann');
  await expectRefusal(withoutLine, 'bob', { qty: 2 }, { kind: 'sold_out' });
  await withoutLine.take('cid');
  await expectRefusal(withoutLine, 'dan', {}, { kind: 'sold_out' });

  const shortLine = await sale.openCampaign({
    totalLimit: 0,
    waitingRoom: { enabled: true, maxSize: 1, presenceSeconds: null },
  });
  await shortLine.join('ann');
  await expectRefusal(shortLine, 'bob', {}, { kind: 'line_full' });
  expect((await shortLine.checkout('ann')).kind).toBe('waiting');
  await expectRefusal(shortLine, 'ann', { newKeys: -1 }, { kind: 'place_limited' });
});

test('promises nothing more once the journal has reached its limit, but still answers for what was promised', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const key = newKey();
  const reservation = await campaign.take('ann', { key });
  await campaign.join('bob');
  const { entries } = await sale.journal.backlog();
  const full = campaign.through(sale.storeWith({ journalLimitEntries: entries }));
  await expectRefusal(full, 'cid', {}, { kind: 'journal_full' });
  expect((await full.checkout('ann', { key })).kind).toBe('replayed');
  expect((await full.checkout('bob')).kind).toBe('waiting');
  expect((await full.confirm(reservation)).kind).toBe('redeemed');
  const roomForOne = campaign.through(sale.storeWith({ journalLimitEntries: entries + 2 }));
  expect((await roomForOne.checkout('cid')).kind).toBe('queued');
  await expectRefusal(roomForOne, 'dan', {}, { kind: 'journal_full' });
});

test('refuses a checkout without a token only where the campaign wants one', async () => {
  const campaign = await sale.openCampaign({ requireAttestation: true });
  const nowSeconds = Math.floor((await sale.nowMs()) / 1000);
  await expectRefusal(campaign, 'ann', {}, { kind: 'attestation_missing' });
  await expectRefusal(campaign, 'ann', { tokenExpiresAt: nowSeconds - 3_600 }, { kind: 'attestation_expired' });
  await expectRefusal(campaign, 'ann', { tokenExpiresAt: nowSeconds + 3_600 }, { kind: 'attestation_future' });
  const key = newKey();
  await campaign.take('ann', { key, tokenExpiresAt: nowSeconds + 30 });
  expect((await campaign.checkout('ann', { key, tokenExpiresAt: nowSeconds - 3_600 })).kind).toBe('replayed');
});

test('replays a key of a user without a token, although the campaign has come to want one', async () => {
  const campaign = await sale.openCampaign();
  const key = newKey();
  await campaign.take('ann', { key });
  await campaign.amend({ requireAttestation: true });
  expect((await campaign.checkout('ann', { key })).kind).toBe('replayed');
  await expectRefusal(campaign, 'bob', {}, { kind: 'attestation_missing' });
});

test('limits no device by what it did at a later time, when the clock has gone back', async () => {
  const campaign = await sale.openCampaign();
  const limits = { deviceQuota: 2, deviceWindowMs: 600_000 };
  const now = await sale.nowMs();
  const at = (nowMs: number) => campaign.through(sale.storeAt(nowMs, limits));
  await at(now).take('ann', { device: 'one' });
  await at(now).take('bob', { device: 'one' });
  expect((await at(now).checkout('cid', { device: 'one' })).kind).toBe('rate_limited');
  await at(now - 3_600_000).take('cid', { device: 'one' });
  await at(now - 3_600_000).take('dan', { device: 'one' });
  expect((await at(now - 3_600_000).checkout('eve', { device: 'one' })).kind).toBe('rate_limited');
});

test('counts every checkout that is decided against the quota of its device, refused ones too', async () => {
  const limits = { deviceQuota: 1, deviceWindowMs: 600_000 };
  const cases: [string, Partial<Campaign>, (campaign: TestCampaign, device: string) => Promise<{ kind: string }>][] = [
    ['sold_out', { totalLimit: 0, waitingRoom: noRoom }, (campaign, device) => campaign.checkout('ann', { device })],
    ['paused', { status: 'paused' }, (campaign, device) => campaign.checkout('ann', { device })],
    ['not_found', { status: 'draft' }, (campaign, device) => campaign.checkout('ann', { device })],
    ['qty_above_max', { maxQty: 1 }, (campaign, device) => campaign.checkout('ann', { device, qty: 2 })],
    ['code_used', { type: 'pool', codes: 1 }, (campaign, device) => campaign.redeem('cid', 1, { device })],
    ['audience_mismatch', {}, (campaign, device) => campaign.redeem('ann', 0, { device, terms: -1 })],
    ['limit_reached', {}, (campaign, device) => campaign.checkout('bob', { device })],
    ['waiting', { totalLimit: 1 }, (campaign, device) => campaign.checkout('dan', { device })],
    ['queued', { totalLimit: 1 }, (campaign, device) => campaign.checkout('eve', { device })],
  ];
  for (const [kind, terms, call] of cases) {
    const campaign = await sale.openCampaign(terms);
    await campaign.checkout('bob');
    await campaign.checkout('dan');
    const strict = campaign.through(sale.storeWith(limits));
    const device = `device-of-${kind}`;
    expect(await call(strict, device)).toMatchObject({ kind });
    expect([kind, (await strict.checkout('zoe', { device })).kind]).toEqual([kind, 'rate_limited']);
  }
});

test('limits a device, and only that device', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 100 });
  const strict = campaign.through(sale.storeWith({ deviceQuota: 2, deviceWindowMs: 600_000 }));
  const key = newKey();
  await strict.take('ann', { device: 'one', key });
  await strict.take('bob', { device: 'one' });
  const refused = await strict.checkout('cid', { device: 'one' });
  expect(refused).toEqual({ kind: 'rate_limited', retryMs: expect.any(Number) });
  expect(refused.kind === 'rate_limited' && refused.retryMs > 590_000 && refused.retryMs <= 600_000).toBe(true);
  expect((await strict.checkout('ann', { device: 'one', key })).kind).toBe('replayed');
  await strict.take('cid', { device: 'two' });
  await strict.take('dan', { device: null });
});

test('refuses a redemption that was judged by other terms or is not for this user, but answers a repeated key first', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 2 });
  await campaign.amend({ name: 'Renamed' });
  await campaign.amend({ name: 'And again' });
  await expectRefusal(campaign, 'ann', { coupon: claimOf(0), terms: 2 }, { kind: 'terms_changed', version: 3 });
  await expectRefusal(campaign, 'ann', { coupon: claimOf(0), terms: 4 }, { kind: 'terms_changed', version: 3 });
  await expectRefusal(campaign, 'ann', { coupon: claimOf(0), terms: -3 }, { kind: 'audience_mismatch' });
  const key = newKey();
  await campaign.use('ann', 0, { key, terms: 3 });
  expect((await campaign.redeem('ann', 0, { key, terms: 1 })).kind).toBe('replayed');
  expect((await campaign.redeem('ann', 0, { key, terms: -3 })).kind).toBe('replayed');
});

describe('an audience', () => {
  const closedToMost = () => sale.openCampaign({ hasAudience: true, totalLimit: 1, termsVersion: 3 });

  test('is judged for a checkout as well: without a judgement, or with one by other terms, the version comes back', async () => {
    const campaign = await closedToMost();
    const changed = { kind: 'terms_changed', version: 3 };
    await expectRefusal(campaign, 'ann', {}, changed);
    await expectRefusal(campaign, 'ann', { terms: 2 }, changed);
    // Excluded by other terms: these may include the user.
    await expectRefusal(campaign, 'ann', { terms: -2 }, changed);
    await expectRefusal(campaign, 'ann', { terms: -3 }, { kind: 'audience_mismatch' });
    await campaign.take('ann', { terms: 3 });
  });

  test('is judged once for a place: a waiting user keeps it and is promoted', async () => {
    const campaign = await closedToMost();
    const held = await campaign.take('ann', { terms: 3 });
    await campaign.join('bob', { terms: 3 });
    await campaign.amend({ name: 'Renamed' });
    expect(await campaign.checkout('bob', { terms: -4 })).toMatchObject({ kind: 'waiting', position: 1 });
    await expectRefusal(campaign, 'cid', { terms: -4 }, { kind: 'audience_mismatch' });
    await campaign.release(held);
    expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
  });

  test('comes and goes with the terms', async () => {
    const campaign = await sale.openCampaign({ perUserLimit: 9 });
    await campaign.amend({ hasAudience: true });
    await expectRefusal(campaign, 'ann', {}, { kind: 'terms_changed', version: 2 });
    await campaign.amend({ hasAudience: false });
    await campaign.take('ann');
  });
});

test('refuses a checkout without a code where each code is for one user', async () => {
  const campaign = await sale.openCampaign({ type: 'unique', codes: 3 });
  await expectRefusal(campaign, 'ann', {}, { kind: 'code_needed' });
  await campaign.use('ann', 2);
  expect(await campaign.usedCodes()).toEqual([2]);
});

test('refuses a code that any user has used', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', codes: 9, perUserLimit: 2 });
  await campaign.use('ann', 9);
  await expectRefusal(campaign, 'bob', { coupon: claimOf(9) }, { kind: 'code_used' });
  await expectRefusal(campaign, 'ann', { coupon: claimOf(9) }, { kind: 'code_used' });
  await campaign.use('bob', 8);
  expect(await campaign.usedCodes()).toEqual([8, 9]);
});

test('refuses a redemption without a fresh one-time token only where the campaign wants one', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', codes: 9, perUserLimit: 2, requireToken: true });
  const now = await sale.nowMs();
  const still = campaign.at(now);
  const onceKey = (nonce: string) => sale.redis.exists(keys.once(campaign.product, nonce));
  await expectRefusal(campaign, 'ann', { coupon: claimOf(1) }, { kind: 'token_missing' });
  await expectRefusal(campaign, 'ann', {}, { kind: 'token_missing' });
  const longGone = { nonce: 'late', expiresAtMs: 1 };
  await expectRefusal(campaign, 'ann', { coupon: claimOf(1, { once: longGone }) }, { kind: 'token_expired' });
  const atItsEnd = { nonce: 'late', expiresAtMs: now };
  await expectRefusal(still, 'ann', { coupon: claimOf(1, { once: atItsEnd }) }, { kind: 'token_expired' });
  expect(await onceKey('late')).toBe(0);
  const key = newKey();
  const lastMoment = { nonce: 'fresh', expiresAtMs: now + 1 };
  expect((await still.redeem('ann', 1, { key, once: lastMoment })).kind).toBe('reserved');
  expect((await still.redeem('ann', 1, { key, once: lastMoment })).kind).toBe('replayed');

  const once = { nonce: 'one', expiresAtMs: (await sale.nowMs()) + 60_000 };
  await campaign.use('bob', 2, { once });
  await expectRefusal(campaign, 'bob', { coupon: claimOf(3, { once }) }, { kind: 'token_used' });
  await expectRefusal(campaign, 'cid', { coupon: claimOf(3, { once }) }, { kind: 'token_used' });
  const elsewhere = await sale.openCampaign({ requireToken: true });
  await elsewhere.use('bob', 0, { once });
});

test('refuses after a refill every one-time token that a user with a record may have used before it', async () => {
  const campaign = await sale.openCampaign({ requireToken: true, perUserLimit: 2 });
  const now = await sale.nowMs();
  const issuedAt = (ms: number) => ({ nonce: `issued-${ms}`, expiresAtMs: ms + TEST_LIMITS.oneTimeTokenMs });
  await campaign.use('ann', 0, { once: issuedAt(now - 1_000) });
  await campaign.set({ restored_at: now });
  const later = campaign.at(now + 1);
  expect((await later.redeem('ann', 0, { once: issuedAt(now) })).kind).toBe('token_expired');
  expect((await later.redeem('ann', 0, { once: issuedAt(now + 1) })).kind).toBe('reserved');
  expect((await later.redeem('bob', 0, { once: issuedAt(now - 1_000 - 1) })).kind).toBe('reserved');
});

test('a key of an archived campaign without a recall gets campaign_ended, whatever its token', async () => {
  const campaign = await sale.openCampaign();
  await campaign.pretendArchived();
  await expectRefusal(campaign, 'ann', {}, { kind: 'ended' });
  await expectRefusal(campaign, 'ann', { tokenExpiresAt: 1 }, { kind: 'ended' });
});

test('refuses a code that another one on the order excludes', async () => {
  const campaign = await sale.openCampaign({ stacking: 'exclusive', perUserLimit: 9 });
  const taken = await campaign.use('ann', 0, { order: 'cart-1' });
  const refused = { kind: 'not_combinable', reservations: [taken] };
  await expectRefusal(campaign, 'ann', { coupon: claimOf(0), terms: 1, order: 'cart-1' }, refused);
  await expectRefusal(campaign, 'ann', { order: 'cart-1' }, refused);
});

test('a record that is malformed fails alone, and the requests beside it are decided', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 9 });
  await sale.redis.hset(keys.people(campaign.product), 'bob', 'malformed');
  const [ann, bob, cid] = await Promise.allSettled(['ann', 'bob', 'cid'].map((user) => campaign.checkout(user)));
  expect(ann).toMatchObject({ value: { kind: 'reserved' } });
  expect(bob).toMatchObject({ reason: { message: expect.stringContaining('a person record is malformed') } });
  expect(cid).toMatchObject({ value: { kind: 'reserved' } });
  expect(await campaign.stock()).toMatchObject({ free: 7, held: 2 });
  await sale.redis.hdel(keys.people(campaign.product), 'bob');
});

test('a bucket without units leaves the decision to its caller', async () => {
  const bucket = { buckets: 10, place: null };
  const withLine = await sale.openBucket({ total: 0 });
  await expectRefusal(withLine, 'ann', { bucket }, { kind: 'short' });
  await sale.store.buckets.seal(withLine.product);
  await expectRefusal(withLine, 'ann', { bucket }, { kind: 'draw', lineNo: null });
  const waitingRoom = { enabled: false, maxSize: 1, presenceSeconds: null };
  await expectRefusal(await sale.openBucket({ total: 0 }, { waitingRoom }), 'ann', { bucket }, { kind: 'empty' });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('reserve')).toEqual([]);
});
