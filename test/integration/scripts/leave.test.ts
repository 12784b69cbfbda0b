import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

test('leave moves the users behind up, once', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  for (const user of ['ann', 'bob', 'cid']) await campaign.join(user);
  expect(await campaign.leave('bob', 'trace-1')).toMatchObject({ kind: 'left' });
  expect(await campaign.positions(['ann', 'bob', 'cid'])).toEqual({
    kind: 'positions',
    queueSize: 2,
    paceMs: null,
    positions: [1, 0, 2],
  });
  expect(await campaign.lastEntries(1)).toEqual([
    {
      kind: 'left',
      no: campaign.terms.no,
      atMs: expect.any(Number),
      user: 'bob',
      lineNo: 2,
      ending: 'left',
      reason: '',
      place: { reservation: expect.any(String), order: '', qty: 1, code: null },
      trace: 'trace-1',
    },
  ]);
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  expect(await campaign.leave('bob')).toMatchObject({ kind: 'left' });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('leave by an operator names them and their reason in its entry, and a repetition makes none', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  for (const user of ['ann', 'bob']) await campaign.join(user);
  const remove = (user: string, reason: string) =>
    campaign.leave(user, '', null, { actor: 'olga', requestId: 'q1', reason });
  expect(await remove('ann', 'a bot')).toMatchObject({ kind: 'left' });
  const entry = { kind: 'left', user: 'ann', ending: 'left', reason: '' };
  expect(await campaign.lastEntries(1)).toMatchObject([
    { ...entry, removed: { by: 'olga', request: 'q1', note: 'a bot' } },
  ]);
  const last = await sale.journal.lastId();
  expect(await remove('ann', 'a bot')).toMatchObject({ kind: 'left', journalId: '' });
  expect(await sale.journal.lastId()).toBe(last);
  await remove('bob', '');
  expect(await campaign.lastEntries(1)).toMatchObject([{ user: 'bob', removed: { by: 'olga', note: '' } }]);
});

test('leave serves the users behind when only the one who left blocked them', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3, perUserLimit: 3 });
  const [reservation] = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('ann')];
  await campaign.join('bob', { qty: 3 });
  await campaign.join('cid');
  await campaign.join('dan');
  await campaign.release(reservation);
  expect(await campaign.stock()).toMatchObject({ free: 1, waiting: 3 });
  await campaign.leave('bob');
  expect(await campaign.line()).toEqual(['dan']);
  expect(await campaign.lastEntries(2)).toMatchObject([
    { kind: 'left', user: 'bob' },
    { kind: 'reserved', user: 'cid', lineNo: 2 },
  ]);
});

test('leave serves as many users behind a group as there are units that the group kept from them', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3, perUserLimit: 3 });
  const held = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('ann')];
  await campaign.join('bob', { qty: 3 });
  for (const user of ['cid', 'dan', 'eve']) await campaign.join(user);
  await campaign.release(String(held[0]));
  await campaign.release(String(held[1]));
  expect(await campaign.stock()).toMatchObject({ free: 2, waiting: 4 });
  await campaign.leave('bob');
  expect(await campaign.line()).toEqual(['eve']);
  expect(await campaign.stock()).toMatchObject({ free: 0, waiting: 1 });
});

test('leave puts a returning user at the tail', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  await campaign.join('ann');
  await campaign.join('bob');
  await campaign.leave('ann');
  expect(await campaign.join('ann')).toBe(2);
  expect((await campaign.person('ann'))?.lineNo).toBe(3);
});

test('leave rejects users who do not wait', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.take('ann');
  await campaign.join('bob');
  const before = await campaign.inRedis();
  expect(await campaign.leave('ann')).toMatchObject({ kind: 'not_waiting' });
  expect(await campaign.leave('nobody')).toMatchObject({ kind: 'not_waiting' });
  expect(await campaign.inRedis()).toEqual(before);
  await campaign.setStatus('close');
  expect(await campaign.leave('bob')).toMatchObject({ kind: 'not_waiting' });
});

test('leave gives up the place of the ticket and no later one', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  await campaign.join('ann');
  const earlier = String((await campaign.person('ann'))?.reservation);
  await campaign.leave('ann', '', earlier);
  await campaign.join('ann');
  const [place, before] = [String((await campaign.person('ann'))?.reservation), await campaign.inRedis()];
  expect(await campaign.leave('ann', '', earlier)).toMatchObject({ kind: 'not_waiting' });
  expect(await campaign.inRedis()).toEqual(before);
  expect(await campaign.leave('ann', '', place)).toMatchObject({ kind: 'left' });
  expect(await campaign.leave('ann', '', place)).toMatchObject({ kind: 'left' });
});

test('leave finds no campaign for an unknown product', async () => {
  expect(await sale.unknownCampaign().leave('ann')).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().leave('ann')).rejects.toThrow(EngineUnavailable));
});

test('leave without a recall finds no waiting user in an archived campaign', async () => {
  const campaign = await sale.openCampaign();
  await campaign.pretendArchived();
  expect(await campaign.leave('ann')).toMatchObject({ kind: 'not_waiting' });
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('leave')).toEqual([]);
});
