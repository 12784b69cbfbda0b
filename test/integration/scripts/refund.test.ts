import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const NOBODYS = '01890a5d-ac96-774b-bcce-b302099a8057';

test('refund returns the unit to stock and the allowance to its user, once', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const reservation = await campaign.take('ann');
  await campaign.confirm(reservation);
  expect(await campaign.refund(reservation, 'trace-1')).toMatchObject({ kind: 'refunded', returned: true });
  expect(await campaign.stock()).toMatchObject({ free: 1, redeemed: 0, burned: 0 });
  expect(await campaign.lastEntries(1)).toEqual([
    { kind: 'refunded', no: campaign.terms.no, atMs: expect.any(Number), reservation, burned: false, trace: 'trace-1' },
  ]);
  const last = await sale.journal.lastId();
  expect(await campaign.refund(reservation)).toMatchObject({ kind: 'refunded', returned: true });
  expect(await sale.journal.lastId()).toBe(last);
  await campaign.take('ann');
});

test('refund gives the unit to the head of the line', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const reservation = await campaign.take('ann');
  await campaign.confirm(reservation);
  await campaign.join('bob');
  await campaign.refund(reservation);
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
  expect(await campaign.lastEntries(2)).toMatchObject([
    { kind: 'refunded', reservation },
    { kind: 'reserved', user: 'bob' },
  ]);
});

test('refund burns the unit where the campaign demands it: no user gets it and the allowance stays used', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, refundPolicy: 'burn' });
  const reservation = await campaign.take('ann');
  await campaign.confirm(reservation);
  await campaign.join('bob');
  expect(await campaign.refund(reservation)).toMatchObject({ kind: 'refunded', returned: false });
  expect(await campaign.stock()).toMatchObject({ free: 0, redeemed: 0, burned: 1, waiting: 1 });
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'refunded', reservation, burned: true }]);
  expect(await campaign.checkout('ann')).toEqual({ kind: 'limit_reached' });
  const last = await sale.journal.lastId();
  expect(await campaign.refund(reservation)).toMatchObject({ kind: 'refunded', returned: false });
  expect(await sale.journal.lastId()).toBe(last);
});

test('refund returns its first response although the policy has changed', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 2 });
  const [returned, burned] = [await campaign.take('ann'), await campaign.take('ann')];
  await campaign.confirm(returned);
  await campaign.confirm(burned);
  await campaign.refund(returned);
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.refund(burned);
  expect(await campaign.refund(returned)).toMatchObject({ kind: 'refunded', returned: true });
  await campaign.amend({ refundPolicy: 'return' });
  expect(await campaign.refund(burned)).toMatchObject({ kind: 'refunded', returned: false });
});

test('refund refunds what was taken again after its deadline', async () => {
  const campaign = await sale.openCampaign({ latePayment: 'reacquire' });
  const reservation = await campaign.take('ann');
  await campaign.letDeadlinePass(reservation);
  await campaign.confirm(reservation);
  expect(await campaign.refund(reservation)).toMatchObject({ kind: 'refunded', returned: true });
  expect(await campaign.stock()).toMatchObject({ free: 10, redeemed: 0 });
});

test('refund refunds nothing that was never redeemed', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 4 });
  const [reserved, released, expired, voided] = [
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
    await campaign.take('ann'),
  ];
  await campaign.release(released);
  await campaign.letDeadlinePass(expired);
  await campaign.expire();
  await campaign.void(voided, 'returns');
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  for (const [reservation, state] of Object.entries({
    [reserved]: 'reserved',
    [released]: 'released',
    [expired]: 'expired',
    [voided]: 'voided',
  })) {
    expect(await campaign.refund(reservation)).toEqual({ kind: 'unpaid', state });
  }
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('refund gives back a part of the units, once, and the rest stays redeemed', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3 });
  const reservation = await campaign.take('ann', { qty: 3 });
  await campaign.confirm(reservation);
  await campaign.join('bob');
  expect(await campaign.refund(reservation, 'trace-1', 2)).toMatchObject({
    kind: 'kept',
    qty: 2,
    refunded: 1,
    burned: 0,
  });
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
  expect(await campaign.reservation(reservation)).toMatchObject({ state: 'redeemed', qty: 2, reduced: '0,1,0' });
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 1, redeemed: 2, burned: 0 });
  const [, entry] = (await campaign.lastEntries(2)).reverse();
  expect(entry).toMatchObject({
    kind: 'reduced',
    before: 3,
    qty: 2,
    ending: 'refunded',
    refunded: 1,
    trace: 'trace-1',
  });
  const last = await sale.journal.lastId();
  for (const keep of [2, 3])
    expect(await campaign.refund(reservation, '', keep)).toMatchObject({ kind: 'kept', qty: 2 });
  expect(await sale.journal.lastId()).toBe(last);
  expect(await campaign.refund(reservation)).toMatchObject({ kind: 'refunded', returned: true });
  expect(await campaign.stock()).toMatchObject({ free: 2, redeemed: 0 });
  expect(await campaign.refund(reservation, '', 1)).toMatchObject({ kind: 'refunded', returned: true });
});

test('refund burns a part where the campaign demands it, and remembers which units were burned', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 4, maxQty: 4, refundPolicy: 'burn' });
  const reservation = await campaign.take('ann', { qty: 4 });
  await campaign.confirm(reservation);
  await campaign.join('bob');
  expect(await campaign.refund(reservation, '', 3)).toMatchObject({ kind: 'kept', qty: 3, refunded: 1, burned: 1 });
  expect(await campaign.stock()).toMatchObject({ free: 0, redeemed: 3, burned: 1, waiting: 1 });
  await campaign.amend({ refundPolicy: 'return' });
  expect(await campaign.refund(reservation, '', 2)).toMatchObject({ kind: 'kept', qty: 2, refunded: 2, burned: 1 });
  expect(await campaign.stock()).toMatchObject({ held: 1, redeemed: 2, burned: 1, waiting: 0 });
  await campaign.amend({ refundPolicy: 'burn' });
  await campaign.refund(reservation);
  expect(await campaign.reservation(reservation)).toMatchObject({ state: 'burned', qty: 2, reduced: '0,2,1' });
  expect(await campaign.stock()).toMatchObject({ redeemed: 0, burned: 3 });
});

test('refund of a part needs a payment, and a later payment gets the units that are left', async () => {
  const campaign = await sale.openCampaign({ latePayment: 'reacquire' });
  const reservation = await campaign.take('ann', { qty: 3 });
  expect(await campaign.refund(reservation, '', 1)).toEqual({ kind: 'unpaid', state: 'reserved' });
  expect(await campaign.confirm(reservation)).toMatchObject({ kind: 'redeemed', qty: null });
  await campaign.refund(reservation, '', 2);
  expect(await campaign.confirm(reservation, 'p-2')).toMatchObject({ kind: 'redeemed', qty: 2 });
  const other = await campaign.take('bob', { qty: 3 });
  await campaign.release(other, null, '', '', 1);
  await campaign.release(other);
  expect(await campaign.confirm(other)).toMatchObject({ kind: 'redeemed', reacquired: true, qty: 1 });
  expect(await campaign.stock()).toMatchObject({ free: 7, redeemed: 3 });
});

test('refund finds neither an unknown reservation nor a product without a campaign', async () => {
  expect(await (await sale.openCampaign()).refund(NOBODYS)).toEqual({ kind: 'not_found' });
  expect(await sale.unknownCampaign().refund(NOBODYS)).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().refund(NOBODYS)).rejects.toThrow(EngineUnavailable));
});

test('refund without a recall does not find a reservation of an archived campaign', async () => {
  const campaign = await sale.openCampaign();
  await campaign.pretendArchived();
  expect(await campaign.refund(NOBODYS)).toEqual({ kind: 'not_found' });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('refund')).toEqual([]);
});
