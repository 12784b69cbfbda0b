import { afterEach, expect, test } from '@jest/globals';
import { MAX_UNITS } from '../../../shared/domain/campaign.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { newKey } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

test('restock adds units and takes free ones away, and journals who did it', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2 });
  const outcome = await campaign.restock(3, { actor: 'olga', request: 'request-9' });
  const journalId = await sale.journal.lastId();
  expect(outcome).toMatchObject({ kind: 'restocked', total: 5, journalId });
  expect(await campaign.entries()).toEqual([
    {
      kind: 'restocked',
      journalId,
      no: campaign.terms.no,
      atMs: expect.any(Number),
      delta: 3,
      before: 2,
      total: 5,
      actor: 'olga',
      request: 'request-9',
    },
  ]);
  expect(await campaign.restock(-5)).toMatchObject({ kind: 'restocked', total: 0 });
  expect(await campaign.stock()).toMatchObject({ total: 0, free: 0 });
});

test('restock takes away nothing that is promised', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 4 });
  await campaign.confirm(await campaign.take('ann'));
  await campaign.take('bob', { qty: 2 });
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  expect(await campaign.restock(-2)).toEqual({ kind: 'insufficient', free: 1 });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
  expect(await campaign.restock(-1)).toMatchObject({ kind: 'restocked', total: 3 });
});

test('restock gives what it adds to the line first, after the entry that allows it, and to at most `limit` users', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0 });
  for (const user of ['ann', 'bob', 'cid', 'dan']) await campaign.join(user);
  await campaign.restock(3, { limit: 2 });
  expect(await campaign.line()).toEqual(['cid', 'dan']);
  expect(await campaign.lastEntries(3)).toMatchObject([
    { kind: 'restocked', total: 3 },
    { kind: 'reserved', user: 'ann' },
    { kind: 'reserved', user: 'bob' },
  ]);
  expect(await campaign.stock()).toMatchObject({ total: 3, free: 1, held: 2, waiting: 2 });
});

test('restock adds once under a key, however often and however late it is repeated', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const key = newKey();
  const first = await campaign.restock(2, { key });
  await campaign.restock(10);
  await campaign.setStatus('close');
  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  for (let times = 0; times < 2; times += 1) {
    expect(await campaign.restock(2, { key })).toEqual({ ...first, journalId: '' });
  }
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('restock adds each time without a key', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.restock(2);
  expect(await campaign.restock(2)).toMatchObject({ total: 5 });
});

test('restock adds once when the same key comes twenty times at once', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const key = newKey();
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => campaign.restock(2, { key })));
  expect(new Set(outcomes.map((outcome) => JSON.stringify({ ...outcome, journalId: '' }))).size).toBe(1);
  expect(outcomes.filter((outcome) => 'journalId' in outcome && outcome.journalId !== '')).toHaveLength(1);
  expect(await campaign.stock()).toMatchObject({ total: 3, free: 3 });
});

test('restock refuses a key of another change or campaign, and leaves shoppers theirs', async () => {
  const [campaign, other] = [await sale.openCampaign(), await sale.openCampaign()];
  const [key, shoppersKey] = [newKey(), newKey()];
  await campaign.restock(2, { key });
  await campaign.take('ann', { key: shoppersKey });
  const reused = { kind: 'key_reused' };
  expect(await campaign.restock(3, { key })).toEqual(reused);
  expect(await campaign.restock(-2, { key })).toEqual(reused);
  expect(await other.restock(2, { key })).toEqual(reused);
  expect(await campaign.restock(2, { key: shoppersKey })).toMatchObject({ kind: 'restocked', total: 14 });
  expect(await campaign.stock()).toMatchObject({ total: 14 });
});

test('restock does not remember a refusal', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const key = newKey();
  const reservation = await campaign.take('ann');
  expect(await campaign.restock(-1, { key })).toEqual({ kind: 'insufficient', free: 0 });
  await campaign.release(reservation);
  expect(await campaign.restock(-1, { key })).toMatchObject({ kind: 'restocked', total: 0 });
});

test('restock adds no more units than a campaign may have', async () => {
  const campaign = await sale.openCampaign({ totalLimit: MAX_UNITS - 1 });
  expect(await campaign.restock(2)).toEqual({ kind: 'too_many', maxTotal: MAX_UNITS });
  expect(await campaign.restock(1)).toMatchObject({ kind: 'restocked', total: MAX_UNITS });
});

test('restock fills a stock while nothing is sold, and hands nothing out', async () => {
  for (const status of ['draft', 'scheduled', 'paused'] as const) {
    const campaign = await sale.openCampaign({ status, totalLimit: 1, startsAt: new Date(Date.now() + 60_000) });
    expect(await campaign.restock(1)).toMatchObject({ kind: 'restocked', total: 2 });
  }
  const paused = await sale.openCampaign({ totalLimit: 0 });
  await paused.join('ann');
  await paused.setStatus('pause');
  await paused.restock(1);
  expect(await paused.stock()).toMatchObject({ free: 1, waiting: 1 });
});

test('a closed campaign takes back units that were its own, and sells none of them', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3 });
  await campaign.restock(-2);
  await campaign.setStatus('close');
  expect(await campaign.restock(2, { back: true })).toMatchObject({ kind: 'restocked', total: 3 });
  expect(await campaign.stock()).toMatchObject({ status: 'closed', total: 3, free: 3 });
  expect((await campaign.checkout('late')).kind).not.toBe('reserved');
});

test('a refusal that the caller records stays one, although a repetition arrives when units are free', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3 });
  const [key, closed] = [newKey(), newKey()];
  const refused = { kind: 'insufficient', free: 3 };
  expect(await campaign.restock(-5, { key, final: true })).toEqual(refused);
  await campaign.restock(9);
  expect(await campaign.restock(-5, { key, final: true })).toEqual(refused);
  expect(await campaign.restock(-4, { key, final: true })).toEqual({ kind: 'key_reused' });
  expect(await campaign.stock()).toMatchObject({ total: 12, free: 12 });
  await campaign.setStatus('close');
  for (let times = 0; times < 2; times += 1)
    expect(await campaign.restock(1, { key: closed, final: true })).toEqual({ kind: 'closed' });
});

test('restock changes no stock that is unlimited, closed or unknown', async () => {
  expect(await (await sale.openCampaign({ totalLimit: null })).restock(1)).toEqual({ kind: 'unlimited' });
  expect(await (await sale.openCampaign({ status: 'closed' })).restock(1)).toEqual({ kind: 'closed' });
  expect(await sale.unknownCampaign().restock(1)).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().restock(1)).rejects.toThrow(EngineUnavailable));
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('restock')).toEqual([]);
});
