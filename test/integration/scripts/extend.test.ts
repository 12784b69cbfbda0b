import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const NOBODYS = '01890a5d-ac96-774b-bcce-b302099a8057';

test('extend moves the deadline once, and a repetition gets the same deadline', async () => {
  const campaign = await sale.openCampaign();
  const reservation = await campaign.take('ann');
  const before = Number((await campaign.reservation(reservation))?.dueMs);
  const extended = { kind: 'extended', dueMs: before + 60_000 };
  expect(await campaign.extend(reservation, 60_000, 'trace-1')).toMatchObject(extended);
  expect(await campaign.lastEntries(1)).toEqual([
    {
      kind: 'extended',
      no: campaign.terms.no,
      atMs: expect.any(Number),
      reservation,
      dueMs: before + 60_000,
      trace: 'trace-1',
    },
  ]);
  const last = await sale.journal.lastId();
  expect(await campaign.extend(reservation, 60_000)).toMatchObject(extended);
  expect(await campaign.extend(reservation, 90_000)).toMatchObject(extended);
  expect(await sale.journal.lastId()).toBe(last);
  expect(await campaign.standing('ann')).toMatchObject({ status: 'completed', dueMs: before + 60_000 });
});

test('an extended reservation is kept by the sweep until its new deadline, and can be paid until then', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 2 });
  const [paid, unpaid] = [await campaign.take('ann'), await campaign.take('ann')];
  const due = Number((await campaign.reservation(paid))?.dueMs);
  for (const reservation of [paid, unpaid]) await campaign.extend(reservation, 60_000);
  const after = campaign.at(due + 30_000);
  expect(await after.expire()).toMatchObject({ expired: 0 });
  expect(await after.confirm(paid, 'pay-1')).toMatchObject({ kind: 'redeemed', paidBy: '' });
  expect(await after.confirm(paid, 'pay-2')).toMatchObject({ kind: 'redeemed', paidBy: 'pay-1' });
  const late = campaign.at(due + 62_000);
  expect(await late.expire()).toMatchObject({ expired: 1 });
  expect(await campaign.stock()).toMatchObject({ held: 0, redeemed: 1, free: 9 });
});

test('extend does not extend what has ended or is paid', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 5, latePayment: 'reacquire' });
  const take = () => campaign.take('ann');
  const [released, overdue, paid, refunded] = [await take(), await take(), await take(), await take()];
  await campaign.release(released);
  await campaign.letDeadlinePass(overdue);
  await campaign.confirm(paid);
  await campaign.confirm(refunded);
  await campaign.refund(refunded);
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  expect(await campaign.extend(released)).toEqual({ kind: 'ended', state: 'released' });
  expect(await campaign.extend(overdue)).toEqual({ kind: 'ended', state: 'expired' });
  expect(await campaign.extend(paid)).toEqual({ kind: 'settled', state: 'redeemed' });
  expect(await campaign.extend(refunded)).toEqual({ kind: 'settled', state: 'refunded' });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('extend refuses in a closed campaign, but for a repetition', async () => {
  const campaign = await sale.openCampaign({ holdSeconds: 60 });
  const [extended, other] = [await campaign.take('a'), await campaign.take('b')];
  const before = await campaign.extend(extended);
  await campaign.setStatus('close');
  expect(await campaign.extend(extended)).toEqual({ ...before, journalId: '' });
  expect(await campaign.extend(other)).toEqual({ kind: 'not_allowed' });
});

test('extend finds neither an unknown reservation nor a product without a campaign', async () => {
  expect(await (await sale.openCampaign()).extend(NOBODYS)).toEqual({ kind: 'not_found' });
  expect(await sale.unknownCampaign().extend(NOBODYS)).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().extend(NOBODYS)).rejects.toThrow(EngineUnavailable));
});

test('extend without a recall does not find a reservation of an archived campaign', async () => {
  const campaign = await sale.openCampaign();
  await campaign.pretendArchived();
  expect(await campaign.extend(NOBODYS)).toEqual({ kind: 'not_found' });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('extend')).toEqual([]);
});
