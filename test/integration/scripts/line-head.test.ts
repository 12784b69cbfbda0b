import { afterEach, expect, test } from '@jest/globals';
import { madeAtMs } from '../../../shared/domain/ids.js';
import { ContractError, EngineUnavailable } from '../../../shared/errors/faults.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const reasonOf = async (campaign: TestCampaign) => {
  const outcome = await campaign.lineHead();
  return outcome.kind === 'line' ? outcome.reason : outcome.kind;
};

test('line_head returns the next users, what they want and since when, at most as many as were requested', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  const before = await sale.nowMs();
  for (const [user, qty] of [
    ['ann', 1],
    ['bob', 3],
    ['cid', 2],
  ] as const)
    await campaign.join(user, { qty });
  await campaign.leave('ann');
  const reservationOf = async (user: string) => (await campaign.person(user))?.reservation;
  const line = await campaign.lineHead();
  expect(line).toEqual({
    kind: 'line',
    reason: 'nothing_free',
    queueSize: 2,
    free: 0,
    head: [
      { user: 'bob', qty: 3, reservationId: await reservationOf('bob'), away: false },
      { user: 'cid', qty: 2, reservationId: await reservationOf('cid'), away: false },
    ],
  });
  const since = line.kind === 'line' && line.head[0] ? madeAtMs(line.head[0].reservationId) : 0;
  // The id is made by this process, whose clock may be another than Redis's by some milliseconds.
  expect(Math.abs(since - before)).toBeLessThan(60_000);
  expect(await campaign.lineHead(1)).toMatchObject({ queueSize: 2, head: [{ user: 'bob' }] });
});

test('line_head reports that no user is present when all have stepped back or are about to, and lists absent users last', async () => {
  const waitingRoom = { enabled: true, maxSize: 9, presenceSeconds: 60 };
  const campaign = await sale.openCampaign({ totalLimit: 1, waitingRoom });
  const held = await campaign.take('ann');
  for (const user of ['bob', 'cid']) await campaign.join(user);
  await campaign.letPresenceLapse('bob');
  await campaign.tend();
  expect(await campaign.lineHead()).toMatchObject({
    reason: 'nothing_free',
    head: [
      { user: 'cid', away: false },
      { user: 'bob', away: true },
    ],
  });
  await campaign.letPresenceLapse('cid');
  await campaign.release(held);
  expect(await reasonOf(campaign)).toBe('nobody_there');
  await campaign.heartbeat('cid');
  expect(await reasonOf(campaign)).toBe('handing_over');
});

test('line_head returns why no user is promoted, in the order in which promotion stops', async () => {
  const none = await sale.openCampaign({ waitingRoom: { enabled: false, maxSize: 1, presenceSeconds: null } });
  expect(await reasonOf(none)).toBe('no_line');
  const campaign = await sale.openCampaign({ totalLimit: 3 });
  expect(await reasonOf(campaign)).toBe('nobody_waits');
  await campaign.take('ann', { qty: 3 });
  await campaign.join('bob', { qty: 2 });
  expect(await reasonOf(campaign)).toBe('nothing_free');
  await campaign.setStatus('pause');
  expect(await reasonOf(campaign)).toBe('paused');
  await campaign.restock(1);
  await campaign.setStatus('resume');
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 0 });
  expect(await reasonOf(campaign)).toBe('head_wants_more');
  await campaign.setStatus('pause');
  await campaign.restock(1);
  await campaign.setStatus('resume');
  expect(await reasonOf(campaign)).toBe('handing_over');
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 1 });
  expect(await reasonOf(campaign)).toBe('nobody_waits');
});

test('line_head reports a sale that has not started, is a draft, or is over', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  await campaign.join('ann');
  const now = await sale.nowMs();
  await campaign.set({ status: 'scheduled', starts_at: now + 60_000 });
  expect(await reasonOf(campaign)).toBe('not_started');
  await campaign.set({ status: 'draft' });
  expect(await reasonOf(campaign)).toBe('draft');
  await campaign.set({ status: 'open', ends_at: now - 1 });
  expect(await reasonOf(campaign)).toBe('ended');
  await campaign.set({ ends_at: 0 });
  expect(await reasonOf(campaign)).toBe('nothing_free');
});

test('line_head distinguishes a pool without codes from one without units', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, type: 'pool' });
  await campaign.addCodes(1);
  await campaign.take('ann');
  await campaign.join('bob');
  expect(await reasonOf(campaign)).toBe('codes_used_up');
  await campaign.addCodes(2);
  expect(await reasonOf(campaign)).toBe('handing_over');
});

test('line_head writes nothing, and refuses to list more than a hundred users', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  await campaign.join('ann');
  const before = [await campaign.inRedis(), await sale.journal.lastId()];
  await campaign.lineHead();
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual(before);
  for (const limit of [0, 101]) await expect(campaign.lineHead(limit)).rejects.toThrow(ContractError);
});

test('an unlimited campaign has no number of free units', async () => {
  const campaign = await sale.openCampaign({ totalLimit: null });
  expect(await campaign.lineHead()).toEqual({
    kind: 'line',
    reason: 'nobody_waits',
    queueSize: 0,
    free: null,
    head: [],
  });
});

test('line_head finds no campaign for an unknown product', async () => {
  expect(await sale.unknownCampaign().lineHead()).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().lineHead()).rejects.toThrow(EngineUnavailable));
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('line_head')).toEqual([]);
});
