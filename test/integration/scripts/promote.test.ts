import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

/** A campaign with this many units free and these people waiting for them, as after a pause. */
async function openWithLine(free: number, line: readonly (readonly [string, number])[], terms = {}) {
  const campaign = await sale.openCampaign({ totalLimit: 0, ...terms });
  for (const [user, qty] of line) await campaign.join(user, { qty });
  await campaign.setStatus('pause');
  await campaign.restock(free);
  await campaign.setStatus('resume');
  return campaign;
}

test('promote serves the line strictly in its order, at most `limit` users', async () => {
  const line = ['ann', 'bob', 'cid', 'dan', 'eve'] as const;
  const campaign = await openWithLine(
    4,
    line.map((user) => [user, 1] as const),
  );
  expect(await campaign.promote(3)).toEqual({ kind: 'promoted', count: 3 });
  expect(await campaign.line()).toEqual(['dan', 'eve']);
  expect(await campaign.promote(3)).toEqual({ kind: 'promoted', count: 1 });
  expect(await campaign.promote(3)).toEqual({ kind: 'promoted', count: 0 });
  expect(await campaign.line()).toEqual(['eve']);
  const promoted = (await campaign.entries()).filter(({ kind }) => kind === 'reserved');
  expect(promoted).toMatchObject(
    line.slice(0, 4).map((user, i) => ({ user, lineNo: i + 1, qty: 1, slot: 1, state: 'reserved' })),
  );
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 4, waiting: 1 });
});

test('promote serves more people in one call than one command of Redis takes', async () => {
  const line = Array.from({ length: 4_600 }, (_, i) => `u${i}`);
  const presence = { enabled: true, maxSize: 5_000, presenceSeconds: 3_600 };
  const campaign = await sale.openCampaign({ totalLimit: 0, waitingRoom: presence });
  await Promise.all(line.map((user) => campaign.join(user)));
  await campaign.restock(4_550, { limit: 0 });
  expect(await campaign.promote(4_500)).toEqual({ kind: 'promoted', count: 4_500 });
  expect(await campaign.line()).toEqual(line.slice(4_500));
  const promoted = (await campaign.entries()).filter(({ kind }) => kind === 'reserved');
  expect(promoted.map((entry) => 'user' in entry && entry.user)).toEqual(line.slice(0, 4_500));
  const inRedis = await campaign.inRedis();
  expect([...inRedis.people.values()].filter(({ state }) => state === 'held').length).toBe(4_500);
  expect([inRedis.reservations.size, inRedis.deadlines.size, inRedis.presence.size]).toEqual([4_500, 4_500, 100]);
  expect(await campaign.promote(4_500)).toEqual({ kind: 'promoted', count: 50 });
});

test('promote passes over absent people, and gives one of them who was just seen the unit', async () => {
  const line = ['ann', 'bob', 'cid', 'dan', 'eve', 'fay'];
  const campaign = await openWithLine(
    4,
    line.map((user) => [user, 1] as const),
    { waitingRoom: { enabled: true, maxSize: 1_000, presenceSeconds: 60 } },
  );
  for (const user of ['ann', 'cid', 'fay']) await campaign.letPresenceLapse(user);
  await campaign.heartbeat('cid');
  expect(await campaign.promote(5)).toEqual({ kind: 'promoted', count: 4 });
  expect(await campaign.line()).toEqual(['fay', 'ann']);
});

test('promote serves the order of the line after people have left, joined again and been served', async () => {
  const campaign = await openWithLine(0, [
    ['ann', 1],
    ['bob', 1],
    ['cid', 1],
  ]);
  await campaign.leave('ann');
  await campaign.join('ann');
  await campaign.join('dan');
  await campaign.leave('cid');
  expect(await campaign.line()).toEqual(['bob', 'ann', 'dan']);
  await campaign.restock(2, { limit: 0 });
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 2 });
  expect(await campaign.line()).toEqual(['dan']);
});

test('promote lets no user pass a head of the line that wants more than is free', async () => {
  const campaign = await openWithLine(2, [
    ['ann', 3],
    ['bob', 1],
    ['cid', 1],
  ]);
  const before = await campaign.inRedis();
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 0 });
  expect(await campaign.inRedis()).toEqual(before);
  await campaign.restock(2, { limit: 0 });
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 2 });
  expect(await campaign.line()).toEqual(['cid']);
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 4 });
});

test('promote lets no newcomer pass the line, even when units are free', async () => {
  const campaign = await openWithLine(2, [['ann', 3]]);
  expect(await campaign.stock()).toMatchObject({ free: 2, waiting: 1 });
  expect(await campaign.join('bob')).toBe(2);
  await campaign.promote();
  expect(await campaign.line()).toEqual(['ann', 'bob']);
});

test('promote redeems at once when nothing is to be paid', async () => {
  const campaign = await openWithLine(1, [['ann', 1]], { holdSeconds: 0 });
  await campaign.promote();
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'reserved', state: 'redeemed', dueMs: 0, lineNo: 1 }]);
  expect(await campaign.stock()).toMatchObject({ redeemed: 1, held: 0 });
});

test('promote keeps the order ids that users brought and makes one for the others', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  await campaign.join('ann', { order: 'cart-9' });
  await campaign.join('bob');
  await campaign.restock(2, { limit: 0 });
  await campaign.promote();
  const id = String((await campaign.person('bob'))?.reservation);
  expect(await campaign.lastEntries(2)).toMatchObject([
    { user: 'ann', order: 'cart-9' },
    { user: 'bob', order: `ord_${id.replaceAll('-', '')}` },
  ]);
});

test('promises nothing while the sale is paused, over or closed', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  await campaign.join('ann');
  await campaign.setStatus('pause');
  await campaign.restock(1);
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 0 });
  await campaign.setStatus('resume');
  await campaign.set({ ends_at: (await sale.nowMs()) - 1 });
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 0 });
  await campaign.set({ ends_at: 0 });
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 1 });
});

test('promote gives a user with several allowances the lowest free one', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, perUserLimit: 3 });
  const [first] = [await campaign.take('ann'), await campaign.take('ann')];
  await campaign.join('ann');
  await campaign.release(first);
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'reserved', user: 'ann', slot: 1, lineNo: 1 }]);
});

test('promote finds no campaign for an unknown product', async () => {
  expect(await sale.unknownCampaign().promote()).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().promote()).rejects.toThrow(EngineUnavailable));
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('promote')).toEqual([]);
});

test('promote gives absent people a longer hold where the campaign has one, in the order of the line', async () => {
  const campaign = await openWithLine(0, [], {
    holdSeconds: 60,
    waitingRoom: { enabled: true, maxSize: 1_000, presenceSeconds: 60, absentHoldSeconds: 900 },
  });
  for (const user of ['ann', 'bob', 'cid']) await campaign.join(user);
  for (const user of ['ann', 'cid']) await campaign.letPresenceLapse(user);
  await campaign.tend();
  expect(await campaign.line()).toEqual(['ann', 'bob', 'cid']);
  await campaign.restock(2, { limit: 0 });
  expect(await campaign.promote(10)).toEqual({ kind: 'promoted', count: 2 });
  const promoted = (await campaign.entries()).filter((entry) => entry.kind === 'reserved');
  expect(promoted.map(({ user, atMs, dueMs }) => [user, dueMs - atMs])).toEqual([
    ['ann', 900_000],
    ['bob', 60_000],
  ]);
  // A user who is seen again has the hold of the others.
  await campaign.heartbeat('cid');
  await campaign.restock(1, { limit: 0 });
  await campaign.promote(10);
  const last = (await campaign.entries()).filter((entry) => entry.kind === 'reserved').at(-1);
  expect(last && [last.user, last.dueMs - last.atMs]).toEqual(['cid', 60_000]);
});
