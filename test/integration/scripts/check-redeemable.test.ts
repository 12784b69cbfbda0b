import { afterEach, expect, test } from '@jest/globals';
import type { Campaign } from '../../../shared/domain/campaign.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const room = (enabled: boolean, maxSize = 9): Partial<Campaign> => ({
  waitingRoom: { enabled, maxSize, presenceSeconds: null },
});

test('check_redeemable returns the free units and changes nothing', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', codes: 9, totalLimit: 3, holdSeconds: 0 });
  await campaign.use('ann', 4);
  const before = [await campaign.inRedis(), await sale.journal.lastId()];
  expect(await campaign.checkRedeemable('bob', 5)).toEqual({ kind: 'usable', free: 2, total: 3 });
  expect(await campaign.checkRedeemable('bob', 0)).toEqual({ kind: 'usable', free: 2, total: 3 });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual(before);
});

test('check_redeemable returns no number for an unlimited stock', async () => {
  const campaign = await sale.openCampaign({ totalLimit: null });
  expect(await campaign.checkRedeemable('ann', 0)).toEqual({ kind: 'usable', free: 0, total: -1 });
});

test('check_redeemable refuses a used code for every user but the one who waits with it', async () => {
  const campaign = await sale.openCampaign({ type: 'unique', codes: 99, totalLimit: 1, perUserLimit: 2 });
  await campaign.use('ann', 1);
  expect(await campaign.checkRedeemable('ann', 1)).toEqual({ kind: 'code_used' });
  expect(await campaign.checkRedeemable('bob', 1)).toEqual({ kind: 'code_used' });
  expect((await campaign.redeem('bob', 12)).kind).toBe('queued');
  expect(await campaign.checkRedeemable('cid', 12)).toEqual({ kind: 'code_used' });
  expect(await campaign.checkRedeemable('bob', 12)).toEqual({ kind: 'usable', free: 0, total: 1 });
  expect(await campaign.checkRedeemable('bob', 1)).toEqual({ kind: 'code_used' });
  expect(await campaign.checkRedeemable('bob', 2)).toEqual({ kind: 'usable', free: 0, total: 1 });
});

test('check_redeemable refuses a user at the limit before it checks the code', async () => {
  const campaign = await sale.openCampaign({ type: 'unique', codes: 9 });
  const id = await campaign.use('ann', 1);
  expect(await campaign.checkRedeemable('ann', 1)).toEqual({ kind: 'limit_reached' });
  expect(await campaign.checkRedeemable('ann', 2)).toEqual({ kind: 'limit_reached' });
  await campaign.release(id);
  expect(await campaign.checkRedeemable('ann', 1)).toEqual({ kind: 'usable', free: 10, total: 10 });
});

test('check_redeemable returns sold_out without a free unit and a line, and a place in a line that is not full', async () => {
  const withoutLine = await sale.openCampaign({ totalLimit: 1, ...room(false) });
  await withoutLine.use('ann', 0);
  expect(await withoutLine.checkRedeemable('bob', 0)).toEqual({ kind: 'sold_out' });

  const campaign = await sale.openCampaign({ totalLimit: 0, ...room(true, 1) });
  expect(await campaign.checkRedeemable('ann', 0)).toEqual({ kind: 'usable', free: 0, total: 0 });
  await campaign.redeem('ann', 0);
  expect(await campaign.checkRedeemable('bob', 0)).toEqual({ kind: 'line_full' });
  expect(await campaign.checkRedeemable('ann', 0)).toEqual({ kind: 'usable', free: 0, total: 0 });
});

test('check_redeemable returns sold_out as reserve does when all units of a campaign with a line are used up', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, holdSeconds: 0, ...room(true, 9) });
  await campaign.take('ann');
  expect(await campaign.checkRedeemable('bob', 0)).toMatchObject({ kind: 'usable', free: 0 });
  await campaign.redeem('bob', 0);
  await campaign.tend();
  await campaign.tend({ settled: true });
  expect((await campaign.checkout('cid')).kind).toBe('sold_out');
  expect(await campaign.checkRedeemable('cid', 0)).toEqual({ kind: 'sold_out' });
});

test('check_redeemable counts no unit as free while a user waits', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2 });
  await campaign.take('ann');
  await campaign.join('bob', { qty: 2 });
  expect(await campaign.stock()).toMatchObject({ free: 1, waiting: 1 });
  expect(await campaign.checkRedeemable('cid', 0)).toEqual({ kind: 'usable', free: 0, total: 2 });
});

test('check_redeemable follows the clock and the operator', async () => {
  const startsAt = new Date(Date.now() + 3_600_000);
  const scheduled = await sale.openCampaign({ status: 'scheduled', startsAt });
  expect(await scheduled.checkRedeemable('ann', 0)).toEqual({ kind: 'not_started', startsAtMs: startsAt.getTime() });
  expect(await (await sale.openCampaign({ status: 'draft' })).checkRedeemable('ann', 0)).toEqual({ kind: 'not_found' });
  expect(await (await sale.openCampaign({ status: 'paused' })).checkRedeemable('ann', 0)).toEqual({ kind: 'paused' });
  expect(await (await sale.openCampaign({ status: 'closed' })).checkRedeemable('ann', 0)).toEqual({ kind: 'ended' });
  const over = await sale.openCampaign({ endsAt: new Date(Date.now() - 1_000) });
  expect(await over.checkRedeemable('ann', 0)).toEqual({ kind: 'ended' });
});

test('check_redeemable finds no campaign that Redis lacks', async () => {
  const campaign = sale.unknownCampaign();
  expect(await campaign.checkRedeemable('ann', 0)).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(async () => {
    await expect(campaign.checkRedeemable('ann', 0)).rejects.toThrow(EngineUnavailable);
  });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('check_redeemable')).toEqual([]);
});
