import { afterEach, expect, test } from '@jest/globals';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

test('expire ends what is overdue, gives the units back and touches nothing else', async () => {
  const campaign = await sale.openCampaign();
  const [overdue, inTime] = [await campaign.take('ann', { qty: 2 }), await campaign.take('bob')];
  await campaign.letDeadlinePass(overdue);
  expect(await campaign.expire()).toEqual({ kind: 'swept', expired: 1, promoted: 0, due: 0 });
  expect(await campaign.stock()).toMatchObject({ free: 9, held: 1 });
  expect(await campaign.reservation(overdue)).toMatchObject({ state: 'expired' });
  expect(await campaign.reservation(inTime)).toMatchObject({ state: 'reserved' });
  expect(await campaign.lastEntries(1)).toEqual([
    {
      kind: 'expired',
      no: campaign.terms.no,
      atMs: expect.any(Number),
      reservation: overdue,
      reason: 'deadline',
      trace: '',
    },
  ]);
});

test('expire finds nothing to do the second time', async () => {
  const campaign = await sale.openCampaign();
  await campaign.letDeadlinePass(await campaign.take('ann'));
  await campaign.expire();
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  expect(await campaign.expire()).toEqual({ kind: 'swept', expired: 0, promoted: 0, due: 0 });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('expire ends the oldest deadlines first, at most `limit` of them, and returns how many are left', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 3 });
  const [third, first, second] = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('ann')];
  const now = await sale.nowMs();
  await campaign.setDeadline(first, now - 3_000);
  await campaign.setDeadline(second, now - 2_000);
  await campaign.setDeadline(third, now - 1_000);
  expect(await campaign.expire(2)).toEqual({ kind: 'swept', expired: 2, promoted: 0, due: 1 });
  expect(await campaign.lastEntries(2)).toMatchObject([{ reservation: first }, { reservation: second }]);
  expect(await campaign.expire(2)).toEqual({ kind: 'swept', expired: 1, promoted: 0, due: 0 });
});

test('expire gives each unit to the head of the line, in its order', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, perUserLimit: 2 });
  const [first, second] = [await campaign.take('ann'), await campaign.take('ann')];
  for (const user of ['bob', 'cid', 'dan']) await campaign.join(user);
  const now = await sale.nowMs();
  await campaign.setDeadline(first, now - 2);
  await campaign.setDeadline(second, now - 1);
  expect(await campaign.expire()).toEqual({ kind: 'swept', expired: 2, promoted: 2, due: 0 });
  expect(await campaign.line()).toEqual(['dan']);
  expect(await campaign.lastEntries(4)).toMatchObject([
    { kind: 'expired', reservation: first },
    { kind: 'reserved', user: 'bob' },
    { kind: 'expired', reservation: second },
    { kind: 'reserved', user: 'cid' },
  ]);
});

test('expire gathers units until the head of the line has as many as it asked for', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3, perUserLimit: 3 });
  const held = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('ann')];
  await campaign.join('bob', { qty: 3 });
  await campaign.join('cid');
  for (const [i, reservation] of held.entries()) {
    expect(await campaign.standing('bob')).toMatchObject({ status: 'queued', position: 1 });
    await campaign.letDeadlinePass(reservation);
    expect(await campaign.expire()).toEqual({ kind: 'swept', expired: 1, promoted: i === 2 ? 1 : 0, due: 0 });
  }
  expect(await campaign.line()).toEqual(['cid']);
  expect(await campaign.stock()).toMatchObject({ free: 0, held: 3 });
});

test('expire promotes for units that became free while no user could get them', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2 });
  const reservation = await campaign.take('ann', { qty: 2 });
  await campaign.join('bob');
  await campaign.join('cid');
  await campaign.setStatus('pause');
  await campaign.letDeadlinePass(reservation);
  expect(await campaign.expire()).toEqual({ kind: 'swept', expired: 1, promoted: 0, due: 0 });
  await campaign.setStatus('resume');
  expect(await campaign.expire(1)).toEqual({ kind: 'swept', expired: 0, promoted: 1, due: 0 });
  expect(await campaign.expire(1)).toEqual({ kind: 'swept', expired: 0, promoted: 1, due: 0 });
  expect(await campaign.line()).toEqual([]);
});

test('expire ends the holds of a closed campaign too', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const reservation = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.setStatus('close');
  await campaign.letDeadlinePass(reservation);
  expect(await campaign.expire()).toEqual({ kind: 'swept', expired: 1, promoted: 0, due: 0 });
  expect(await campaign.stock()).toMatchObject({ status: 'closed', free: 1, held: 0, waiting: 0 });
});

test('expire finds no campaign for an unknown product', async () => {
  expect(await sale.unknownCampaign().expire()).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().expire()).rejects.toThrow(EngineUnavailable));
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('expire')).toEqual([]);
});
