import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const NOBODYS = '01890a5d-ac96-774b-bcce-b302099a8057';

test('a unit that is real goes to the head of the line, once', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2 });
  const reservation = await campaign.take('ann', { qty: 2 });
  await campaign.join('bob');
  expect(await campaign.void(reservation, 'returns', 'redemptions_one_per_allowance')).toEqual({ kind: 'voided' });
  expect(await campaign.stock()).toEqual({
    status: 'open',
    total: 2,
    free: 1,
    held: 1,
    redeemed: 0,
    burned: 0,
    waiting: 0,
  });
  expect(await campaign.lastEntries(2)).toMatchObject([
    { kind: 'voided', no: campaign.terms.no, reservation, reason: 'redemptions_one_per_allowance', trace: '' },
    { kind: 'reserved', user: 'bob', lineNo: 1 },
  ]);
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  expect(await campaign.void(reservation, 'returns')).toEqual({ kind: 'voided' });
  expect(await campaign.void(reservation, 'never_existed')).toEqual({ kind: 'voided' });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('a unit that never existed leaves the total and goes to no user', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3 });
  const reservation = await campaign.take('ann', { qty: 2 });
  await campaign.join('bob', { qty: 2 });
  expect(await campaign.void(reservation, 'never_existed', 'campaigns_cap')).toEqual({ kind: 'voided' });
  expect(await campaign.stock()).toEqual({
    status: 'open',
    total: 1,
    free: 1,
    held: 0,
    redeemed: 0,
    burned: 0,
    waiting: 1,
  });
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'voided', reservation, reason: 'campaigns_cap' }]);
  // What Postgres still counts.
  expect(await sale.redis.hget(keys.campaign(campaign.product), 'refused')).toBe('2');
});

test('void takes back units that were burned in part, because Postgres counts none of a voided row', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 6, perUserLimit: 2, refundPolicy: 'burn' });
  const [returned, unreal] = [await campaign.take('ann', { qty: 3 }), await campaign.take('ann', { qty: 3 })];
  for (const id of [returned, unreal]) {
    await campaign.confirm(id);
    await campaign.refund(id, '', 1);
  }
  expect(await campaign.stock()).toMatchObject({ total: 6, free: 0, redeemed: 2, burned: 4 });
  await campaign.void(returned, 'returns');
  expect(await campaign.stock()).toMatchObject({ total: 6, free: 3, redeemed: 1, burned: 2 });
  await campaign.void(unreal, 'never_existed');
  expect(await campaign.stock()).toMatchObject({ total: 3, free: 3, redeemed: 0, burned: 0 });
});

test('void voids what is redeemed or was taken again, both ways', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 4, perUserLimit: 2, latePayment: 'reacquire' });
  const [redeemed, reacquired] = [await campaign.take('ann'), await campaign.take('ann')];
  await campaign.confirm(redeemed);
  await campaign.release(reacquired);
  await campaign.confirm(reacquired);
  await campaign.void(redeemed, 'returns');
  expect(await campaign.stock()).toMatchObject({ total: 4, free: 3, redeemed: 1 });
  await campaign.void(reacquired, 'never_existed');
  expect(await campaign.stock()).toMatchObject({ total: 3, free: 3, redeemed: 0 });
  expect((await campaign.person('ann'))?.slots).toEqual([]);
});

test('an unlimited stock has no total to take a unit out of', async () => {
  const campaign = await sale.openCampaign({ totalLimit: null });
  await campaign.void(await campaign.take('ann'), 'never_existed');
  expect(await campaign.stock()).toEqual({
    status: 'open',
    total: null,
    free: null,
    held: 0,
    redeemed: 0,
    burned: 0,
    waiting: 0,
  });
});

test('void notifies the user that the reservation is voided, and frees the allowance', async () => {
  const campaign = await sale.openCampaign();
  await campaign.void(await campaign.take('ann'), 'returns');
  expect(await campaign.standing('ann')).toMatchObject({ status: 'released' });
  await campaign.take('ann');
});

test('void takes nothing from what holds no unit any more', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 4 });
  const [released, expired, refunded, burned] = [
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
  ];
  await campaign.release(released);
  await campaign.letDeadlinePass(expired);
  await campaign.expire();
  await campaign.confirm(refunded);
  await campaign.refund(refunded);
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.confirm(burned);
  await campaign.refund(burned);
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  for (const [reservation, state] of Object.entries({
    [released]: 'released',
    [expired]: 'expired',
    [refunded]: 'refunded',
    [burned]: 'burned',
  })) {
    expect(await campaign.void(reservation, 'returns')).toEqual({ kind: 'not_active', state });
    expect(await campaign.void(reservation, 'never_existed')).toEqual({ kind: 'not_active', state });
  }
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('void finds neither an unknown reservation nor a product without a campaign', async () => {
  expect(await (await sale.openCampaign()).void(NOBODYS, 'returns')).toEqual({ kind: 'not_found' });
  expect(await sale.unknownCampaign().void(NOBODYS, 'returns')).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() =>
    expect(sale.unknownCampaign().void(NOBODYS, 'returns')).rejects.toThrow(EngineUnavailable),
  );
});

test('void without a recall does not find a reservation of an archived campaign', async () => {
  const campaign = await sale.openCampaign();
  await campaign.pretendArchived();
  expect(await campaign.void(NOBODYS, 'returns')).toEqual({ kind: 'not_found' });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('void')).toEqual([]);
});

test('void keeps a code used that Postgres has given to another user, and the record without it', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', codes: 2, totalLimit: 2 });
  const id = await campaign.take('ann');
  expect(await campaign.void(id, 'code_used')).toMatchObject({ kind: 'voided' });
  const record = await sale.redis.hget(keys.reservations(campaign.product), id);
  expect(record).toMatch(/^voided\|ann\|.*\|$/);
  expect(await campaign.redeem('bob', 1)).toEqual({ kind: 'code_used' });
  // The other user's reservation, which would have the code, exists only in Postgres.
  await sale.redis.setbit(keys.usedCodes(campaign.product), 0, 0);
});
