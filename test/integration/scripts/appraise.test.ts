import { afterEach, expect, test } from '@jest/globals';
import type { Campaign } from '../../../shared/domain/campaign.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(async () => expect(await sale.audit()).toEqual([]));

const room = (enabled: boolean, maxSize = 9): Partial<Campaign> => ({
  waitingRoom: { enabled, maxSize, presenceSeconds: null },
});

test('appraise returns the free units and changes nothing', async () => {
  const campaign = await sale.openCampaign({ type: 'pool', codes: 9, totalLimit: 3, holdSeconds: 0 });
  await campaign.use('ann', 4);
  const before = [await campaign.inRedis(), await sale.journal.lastId()];
  expect(await campaign.appraise('bob', 5)).toEqual({ kind: 'usable', free: 2, total: 3 });
  expect(await campaign.appraise('bob', 0)).toEqual({ kind: 'usable', free: 2, total: 3 });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual(before);
});

test('appraise returns no number for an unlimited stock', async () => {
  const campaign = await sale.openCampaign({ totalLimit: null });
  expect(await campaign.appraise('ann', 0)).toEqual({ kind: 'usable', free: 0, total: -1 });
});

test('appraise refuses a used code for every user but the one who waits with it', async () => {
  const campaign = await sale.openCampaign({ type: 'unique', codes: 99, totalLimit: 1, perUserLimit: 2 });
  await campaign.use('ann', 1);
  expect(await campaign.appraise('ann', 1)).toEqual({ kind: 'code_used' });
  expect(await campaign.appraise('bob', 1)).toEqual({ kind: 'code_used' });
  expect((await campaign.redeem('bob', 12)).kind).toBe('queued');
  expect(await campaign.appraise('cid', 12)).toEqual({ kind: 'code_used' });
  expect(await campaign.appraise('bob', 12)).toEqual({ kind: 'usable', free: 0, total: 1 });
  expect(await campaign.appraise('bob', 1)).toEqual({ kind: 'code_used' });
  expect(await campaign.appraise('bob', 2)).toEqual({ kind: 'usable', free: 0, total: 1 });
});

test('appraise refuses a user at the limit before it checks the code', async () => {
  const campaign = await sale.openCampaign({ type: 'unique', codes: 9 });
  const id = await campaign.use('ann', 1);
  expect(await campaign.appraise('ann', 1)).toEqual({ kind: 'limit_reached' });
  expect(await campaign.appraise('ann', 2)).toEqual({ kind: 'limit_reached' });
  await campaign.release(id);
  expect(await campaign.appraise('ann', 1)).toEqual({ kind: 'usable', free: 10, total: 10 });
});

test('appraise returns sold_out without a free unit and a line, and a place in a line that is not full', async () => {
  const withoutLine = await sale.openCampaign({ totalLimit: 1, ...room(false) });
  await withoutLine.use('ann', 0);
  expect(await withoutLine.appraise('bob', 0)).toEqual({ kind: 'sold_out' });

  const campaign = await sale.openCampaign({ totalLimit: 0, ...room(true, 1) });
  expect(await campaign.appraise('ann', 0)).toEqual({ kind: 'usable', free: 0, total: 0 });
  await campaign.redeem('ann', 0);
  expect(await campaign.appraise('bob', 0)).toEqual({ kind: 'line_full' });
  expect(await campaign.appraise('ann', 0)).toEqual({ kind: 'usable', free: 0, total: 0 });
});

test('appraise counts no unit as free while a user waits', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2 });
  await campaign.take('ann');
  await campaign.join('bob', { qty: 2 });
  expect(await campaign.stock()).toMatchObject({ free: 1, waiting: 1 });
  expect(await campaign.appraise('cid', 0)).toEqual({ kind: 'usable', free: 0, total: 2 });
});

test('appraise follows the clock and the operator', async () => {
  const startsAt = new Date(Date.now() + 3_600_000);
  const scheduled = await sale.openCampaign({ status: 'scheduled', startsAt });
  expect(await scheduled.appraise('ann', 0)).toEqual({ kind: 'not_started', startsAtMs: startsAt.getTime() });
  expect(await (await sale.openCampaign({ status: 'draft' })).appraise('ann', 0)).toEqual({ kind: 'not_found' });
  expect(await (await sale.openCampaign({ status: 'paused' })).appraise('ann', 0)).toEqual({ kind: 'paused' });
  expect(await (await sale.openCampaign({ status: 'closed' })).appraise('ann', 0)).toEqual({ kind: 'ended' });
  const over = await sale.openCampaign({ endsAt: new Date(Date.now() - 1_000) });
  expect(await over.appraise('ann', 0)).toEqual({ kind: 'ended' });
});

test('appraise finds no campaign that Redis lacks', async () => {
  const campaign = sale.unknownCampaign();
  expect(await campaign.appraise('ann', 0)).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(async () => {
    await expect(campaign.appraise('ann', 0)).rejects.toThrow(EngineUnavailable);
  });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('appraise')).toEqual([]);
});
