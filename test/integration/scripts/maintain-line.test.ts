import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { newKey } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const nothing = { kind: 'tended', away: 0, left: 0, closed: 0, promoted: 0, more: false };
const room = (presenceSeconds: number | null) => ({ waitingRoom: { enabled: true, maxSize: 100, presenceSeconds } });

test('an absent user steps back and blocks no other, and gets the place again on return', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, ...room(60) });
  const held = await campaign.take('ann');
  for (const user of ['bob', 'cid', 'dan']) await campaign.join(user);
  await campaign.letPresenceLapse('bob');
  expect(await campaign.tend()).toEqual({ ...nothing, away: 1 });
  expect(await campaign.tend()).toEqual(nothing);
  expect(await campaign.positions(['cid', 'dan', 'bob'])).toMatchObject({ queueSize: 3, positions: [1, 2, 1] });
  await campaign.release(held);
  expect(await campaign.standing('cid')).toMatchObject({ status: 'promoted' });

  expect(await campaign.standing('bob')).toMatchObject({ status: 'queued', position: 1 });
  expect(await campaign.heartbeat('bob', 'dan', 'nobody')).toEqual({ kind: 'attended', returned: 1 });
  expect(await campaign.line()).toEqual(['bob', 'dan']);
  await campaign.release(String((await campaign.person('cid'))?.reservation));
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
});

test('a returned unit passes over absent users, also before the line was maintained', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, ...room(60) });
  const held = await campaign.take('ann');
  for (const user of ['bob', 'cid', 'dan']) await campaign.join(user);
  await campaign.letPresenceLapse('bob');
  await campaign.letPresenceLapse('cid');
  await campaign.release(held);
  expect(await campaign.standing('dan')).toMatchObject({ status: 'promoted' });
  expect(await campaign.line()).toEqual(['bob', 'cid']);
});

test('with all users absent a new one is served, and a user who checks out again is present again', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, ...room(60) });
  const held = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.letPresenceLapse('bob');
  await campaign.release(held);
  expect(await campaign.stock()).toMatchObject({ free: 1, waiting: 1 });
  const taken = await campaign.take('cid');
  expect(await campaign.join('dan')).toBe(1);
  expect(await campaign.checkout('bob')).toMatchObject({ kind: 'waiting', position: 1, presenceMs: 60_000 });
  await campaign.release(taken);
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
});

test('a place is lost when its time is over, and the next one is at the tail', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0, ...room(10) });
  await campaign.join('ann');
  await campaign.join('bob');
  const before = (await sale.nowMs()) - 10_001;
  await campaign.letPresenceLapse('ann');
  const after = (await sale.nowMs()) - 10_001;
  await campaign.tend();
  const kept = (await campaign.inRedis()).presence.get('ann');
  // A minute at least, after the ten seconds in which the user counted as present.
  expect(-Number(kept) - 70_000).toBeGreaterThanOrEqual(before);
  expect(-Number(kept) - 70_000).toBeLessThanOrEqual(after);
  await campaign.letPlaceLapse('ann');
  expect(await campaign.tend()).toEqual({ ...nothing, left: 1 });
  expect(await campaign.lastEntries(1)).toMatchObject([
    { kind: 'left', user: 'ann', lineNo: 1, ending: 'left', reason: 'absent' },
  ]);
  expect(await campaign.standing('ann')).toMatchObject({ status: 'left' });
  expect(await campaign.heartbeat('ann')).toEqual({ kind: 'attended', returned: 0 });
  expect(await campaign.join('ann')).toBe(2);
});

test('a campaign that stops asking for presence gives all users their places back', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0, ...room(60) });
  for (const user of ['ann', 'bob', 'cid']) await campaign.join(user);
  await campaign.letPresenceLapse('ann');
  await campaign.tend();
  await campaign.amend(room(null));
  expect(await campaign.tend({}, 1)).toMatchObject({ more: true });
  expect(await campaign.line()).toEqual(['ann', 'bob', 'cid']);
  await campaign.tend();
  expect((await campaign.inRedis()).presence.size).toBe(0);
});

test('a campaign that begins to serve absent users gives them their places back, and still sees who is there', async () => {
  const absent = { waitingRoom: { ...room(60).waitingRoom, absentHoldSeconds: 900 } };
  const campaign = await sale.openCampaign({ totalLimit: 0, ...room(60) });
  for (const user of ['ann', 'bob']) await campaign.join(user);
  await campaign.letPresenceLapse('ann');
  await campaign.tend();
  await campaign.amend(absent);
  await campaign.letPresenceLapse('bob');
  expect(await campaign.tend()).toEqual(nothing);
  expect(await campaign.line()).toEqual(['ann', 'bob']);
  expect([...(await campaign.inRedis()).presence.keys()]).toEqual(['bob']);
  expect(await campaign.heartbeat('bob')).toEqual({ kind: 'attended', returned: 0 });
});

test('a user who joined the line before it asked for presence does not count as absent', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, ...room(null) });
  const held = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.amend(room(60));
  expect(await campaign.tend()).toEqual(nothing);
  await campaign.release(held);
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
});

test('units are kept for a group for so long, then serve those behind it once, and then are kept until it is served', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 5, perUserLimit: 5 });
  const held: string[] = [];
  for (let i = 0; i < 5; i += 1) held.push(await campaign.take('ann'));
  await campaign.join('bob', { qty: 3 });
  await campaign.join('cid', { qty: 2 });
  for (const user of ['dan', 'eve', 'fay']) await campaign.join(user);
  const start = await sale.nowMs();
  const after = (ms: number) => campaign.at(start + ms).store.line.maintain(campaign.product, 100, 30_000, 2_000);
  await campaign.release(String(held[0]));
  expect(await after(0)).toEqual(nothing);
  expect((await campaign.inRedis()).fields.blocked).toBe(`1|${start}`);
  expect(await after(29_999)).toEqual(nothing);
  expect(await campaign.line()).toEqual(['bob', 'cid', 'dan', 'eve', 'fay']);
  expect(await after(30_000)).toEqual({ ...nothing, promoted: 1 });
  expect(await campaign.line()).toEqual(['bob', 'cid', 'eve', 'fay']);
  expect((await campaign.inRedis()).fields.blocked).toBe(`1|${start + 30_000}|1`);
  // From here on nothing is given away behind Bob, however long it takes.
  for (const [i, ms] of [31_000, 61_000, 600_000].entries()) {
    expect(await campaign.stock()).toMatchObject({ free: i });
    expect(await after(ms)).toEqual(nothing);
    await campaign.release(String(held[i + 1]));
  }
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
  // The next group has its own wait.
  await campaign.release(String(held[4]));
  expect(await campaign.line()).toEqual(['cid', 'eve', 'fay']);
  expect(await after(700_000)).toEqual(nothing);
  expect(await after(730_000)).toEqual({ ...nothing, promoted: 1 });
  expect(await campaign.standing('eve')).toMatchObject({ status: 'promoted' });
});

test('a group that leaves blocks no user any more, and one behind which no user fits was not passed over', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3, perUserLimit: 3 });
  const held = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('ann')];
  await campaign.join('bob', { qty: 3 });
  await campaign.join('cid', { qty: 2 });
  await campaign.release(String(held[0]));
  expect(await campaign.tend({ groupWaited: true })).toEqual(nothing);
  expect((await campaign.inRedis()).fields.blocked).toMatch(/^1\|\d+\|0$/);
  await campaign.join('dan');
  expect(await campaign.tend({ groupWaited: true })).toEqual({ ...nothing, promoted: 1 });
  await campaign.release(String(held[1]));
  await campaign.release(String(held[2]));
  expect(await campaign.tend({ groupWaited: true })).toEqual(nothing);
  await campaign.leave('bob');
  expect(await campaign.standing('cid')).toMatchObject({ status: 'promoted' });
});

test('a group that came when more units were allowed at once is closed when it can never be served', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, perUserLimit: 3 });
  const held = [await campaign.take('ann'), await campaign.take('ann')];
  await campaign.join('bob', { qty: 3 });
  await campaign.join('cid');
  await campaign.amend({ maxQty: 1 });
  await campaign.release(String(held[0]));
  expect(await campaign.tend()).toEqual(nothing);
  expect(await campaign.tend({ settled: true })).toEqual({ ...nothing, closed: 1, promoted: 1 });
  expect(await campaign.standing('bob')).toMatchObject({ status: 'closed' });
});

test('a user who wants more than can ever be returned is notified, and the users behind are served', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3, perUserLimit: 3 });
  const held = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('ann')];
  await campaign.join('bob', { qty: 3 });
  await campaign.join('cid', { qty: 3 });
  await campaign.join('dan');
  expect(await campaign.tend({ settled: true })).toEqual(nothing);
  await campaign.confirm(String(held[0]));
  expect(await campaign.tend()).toEqual(nothing);
  expect(await campaign.tend({ settled: true })).toEqual({ ...nothing, closed: 2 });
  expect(await campaign.lastEntries(2)).toMatchObject([
    { kind: 'left', user: 'bob', ending: 'closed', reason: 'unservable' },
    { kind: 'left', user: 'cid', ending: 'closed', reason: 'unservable' },
  ]);
  expect(await campaign.standing('bob')).toMatchObject({ status: 'closed', position: 0 });
  expect(await campaign.standing('dan')).toMatchObject({ status: 'queued', position: 1 });
  expect(await campaign.join('bob', { qty: 2 })).toBe(2);
});

test('when all units are used up the line is closed, new users are refused, and a restock begins a new line', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, refundPolicy: 'return' });
  const bought = await campaign.take('ann');
  await campaign.join('bob');
  expect(await campaign.tend({ settled: true })).toEqual(nothing);
  await campaign.confirm(bought);
  expect(await campaign.tend()).toEqual(nothing);
  // A payment that is refunded at once would still serve this user.
  expect(await campaign.checkout('cid')).toMatchObject({ kind: 'queued', position: 2 });
  expect(await campaign.tend({ settled: true })).toEqual({ ...nothing, closed: 2 });
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'line_closed', upTo: 2 }]);
  expect(await campaign.standing('bob')).toMatchObject({ status: 'closed' });
  expect(await campaign.leave('bob')).toMatchObject({ kind: 'not_waiting' });
  expect(await campaign.checkout('dan')).toEqual({ kind: 'sold_out' });
  expect(await campaign.tend({ settled: true })).toEqual(nothing);

  await campaign.restock(1);
  await campaign.take('eve');
  expect(await campaign.join('bob')).toBe(1);
  expect((await campaign.person('bob'))?.lineNo).toBe(3);
});

test('the wait for the end begins anew when a unit came back in between', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, refundPolicy: 'return' });
  const bought = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.confirm(bought);
  await campaign.tend();
  expect((await campaign.inRedis()).fields.spent_since).toMatch(/^spent\|\d+$/);
  await campaign.refund(bought);
  await campaign.tend();
  expect((await campaign.inRedis()).fields.spent_since).toBeUndefined();
});

test('a line is kept for as long as another region has units', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.confirm(await campaign.take('ann'));
  await campaign.join('bob');
  expect(await campaign.noteElsewhere('units')).toEqual({ kind: 'noted' });
  expect(await campaign.tend({ settled: true })).toEqual(nothing);
  expect(await campaign.line()).toEqual(['bob']);
  // As after `keep_ms`, and as of a clock that was hours ahead.
  const later = await campaign.at((await sale.nowMs()) + 6_000);
  const hoursAgo = await campaign.at((await sale.nowMs()) - 7_200_000);
  await hoursAgo.tend();
  expect((await campaign.inRedis()).fields.spent_since).toMatch(/^spent/);
  expect(await later.tend({ settled: true })).toMatchObject({ closed: 1 });
});

test('a line of a region that gave all of its units away is closed when no region has any', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.take('ann');
  await campaign.join('bob');
  const { reservations } = await campaign.inRedis();
  await campaign.leave('bob');
  await campaign.release(String([...reservations.keys()][0]));
  await campaign.restock(-1);
  expect((await campaign.checkout('bob')).kind).toBe('queued');
  expect(await campaign.tend({ settled: true })).toEqual(nothing);
  await campaign.noteElsewhere('none');
  expect(await campaign.tend({ settled: true })).toMatchObject({ closed: 1 });
  expect(await campaign.checkout('cid')).toEqual({ kind: 'sold_out' });
  await campaign.noteElsewhere('units');
  await campaign.tend();
  expect((await campaign.checkout('cid')).kind).toBe('queued');
});

test('note_elsewhere notes nothing about an unknown product', async () => {
  expect(await sale.unknownCampaign().noteElsewhere('none')).toEqual({ kind: 'not_found' });
  const lost = sale.unknownCampaign();
  await sale.withoutEpoch(() => expect(lost.noteElsewhere('none')).rejects.toThrow(EngineUnavailable));
});

test('a refund before the line is closed serves it', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, refundPolicy: 'return' });
  const bought = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.confirm(bought);
  await campaign.tend();
  await campaign.refund(bought);
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted' });
});

test('a line that is closed frees the codes that people came with, a batch at a time', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, type: 'pool', codes: 9 });
  const bought = await campaign.use('ann', 1);
  for (const [i, user] of ['bob', 'cid', 'dan'].entries()) await campaign.redeem(user, i + 2);
  await campaign.confirm(bought);
  expect(await campaign.usedCodes()).toEqual([1, 2, 3, 4]);
  expect(await campaign.tend({ settled: true }, 2)).toEqual({ ...nothing, closed: 2, more: true });
  expect(await campaign.usedCodes()).toEqual([1, 4]);
  expect(await campaign.tend({ settled: true }, 2)).toEqual({ ...nothing, closed: 1 });
  expect(await campaign.usedCodes()).toEqual([1]);
  const ended = (await campaign.entries()).filter(({ kind }) => kind === 'left' || kind === 'line_closed');
  expect(ended).toMatchObject([
    { kind: 'left', user: 'bob', lineNo: 1, ending: 'closed', reason: '' },
    { kind: 'left', user: 'cid', lineNo: 2, ending: 'closed', reason: '' },
    { kind: 'left', user: 'dan', lineNo: 3, ending: 'closed', reason: '' },
    { kind: 'line_closed', upTo: 3 },
  ]);
});

test('a line that is closed ends with the users who step back in the same call', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1, type: 'pool', codes: 9, ...room(60) });
  const bought = await campaign.use('ann', 1);
  for (const [i, user] of ['bob', 'cid'].entries()) await campaign.redeem(user, i + 2);
  await campaign.confirm(bought);
  expect(await campaign.tend()).toEqual(nothing);
  await campaign.letPresenceLapse('bob');
  expect(await campaign.tend({ settled: true })).toEqual({ ...nothing, away: 1, closed: 2 });
  expect([await campaign.line(), await campaign.usedCodes()]).toEqual([[], [1]]);
});

test('lines that may yet be served stay: before any stock, without limit, while paused', async () => {
  const empty = await sale.openCampaign({ totalLimit: 0 });
  await empty.join('ann');
  expect(await empty.tend({ settled: true, groupWaited: true })).toEqual(nothing);
  expect(await empty.line()).toEqual(['ann']);

  const unlimited = await sale.openCampaign({ totalLimit: null, type: 'pool', codes: 0 });
  await unlimited.join('ann');
  expect(await unlimited.tend({ settled: true, groupWaited: true })).toEqual(nothing);

  const paused = await sale.openCampaign({ totalLimit: 1, ...room(60) });
  await paused.confirm(await paused.take('ann'));
  await paused.join('bob');
  await paused.letPresenceLapse('bob');
  await paused.setStatus('pause');
  expect(await paused.tend({ settled: true })).toEqual(nothing);
  expect(await paused.line()).toEqual(['bob']);
});

test('maintain_line returns the pace of the line once enough users were served', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, perUserLimit: 2 });
  await campaign.take('ann');
  await campaign.take('ann');
  const from = await sale.nowMs();
  const at = async (ms: number) => campaign.at(from + ms);
  for (const user of ['bob', 'cid', 'dan', 'eve', 'fay', 'gus']) await (await at(0)).join(user);
  // One every ten seconds, since the line began.
  for (const [i, user] of ['ann', 'ann', 'bob'].entries()) {
    const { reservations } = await campaign.inRedis();
    const [id] = [...reservations].find(([, one]) => one.user === user && one.state === 'reserved') ?? [];
    await (await at((i + 1) * 10_000)).release(String(id));
    const { paceMs } = (await (await at((i + 1) * 10_000)).positions([])) as { paceMs: number | null };
    if (i < 2) expect(paceMs).toBeNull();
    else expect(Math.abs(Number(paceMs) - 10_000)).toBeLessThan(700);
  }
  const key = newKey();
  const late = await at(30_000);
  expect(await late.checkout('hal', { key })).toMatchObject({
    kind: 'queued',
    position: 4,
    paceMs: expect.any(Number),
  });
  const first = await late.standing('hal');
  expect(await late.checkout('hal', { key })).toMatchObject({
    kind: 'replayed',
    answer: expect.stringMatching(/^Q\|4\|4\|t1\|\d+\|0\|/),
  });
  expect(first).toMatchObject({ status: 'queued', paceMs: expect.any(Number) });
  // No user was served for so long that there is no estimate any more.
  expect(await (await at(600_000)).standing('hal')).toMatchObject({ paceMs: null });
});

test('maintain_line does nothing for a sale that is over, and finds no campaign for an unknown product', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.setStatus('close');
  expect(await campaign.tend({ settled: true })).toEqual(nothing);
  const unknown = sale.unknownCampaign();
  expect(await unknown.tend()).toEqual({ kind: 'not_found' });
  expect(await unknown.heartbeat('ann')).toEqual({ kind: 'not_found' });
  const lost = sale.unknownCampaign();
  await sale.withoutEpoch(() => expect(lost.tend()).rejects.toThrow(EngineUnavailable));
  await sale.withoutEpoch(() => expect(lost.heartbeat('ann')).rejects.toThrow(EngineUnavailable));
});

test('every reply of the scripts has come in this file', () => {
  expect([
    sale.unmetReplies('maintain_line'),
    sale.unmetReplies('heartbeat'),
    sale.unmetReplies('note_elsewhere'),
  ]).toEqual([[], [], []]);
});
