import { afterEach, expect, test } from '@jest/globals';
import type { Campaign } from '../../../shared/domain/campaign.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

/** Codes of a pool: each checkout gets the next one. */
const sale = await startSale();
afterEach(() => sale.expectConsistent());

const WITHOUT_LINE = { waitingRoom: { enabled: false, maxSize: 1, presenceSeconds: null } };
const openPool = (codes: number, terms: Partial<Campaign> = {}) =>
  sale.openCampaign({ type: 'pool', codes, totalLimit: 30, perUserLimit: 9, ...terms });

/** Checks out. @returns the reservation and the number of the code that was handed out */
async function takeCode(campaign: TestCampaign, user: string): Promise<{ id: string; code: number | null }> {
  const outcome = await campaign.checkout(user);
  if (outcome.kind !== 'reserved') throw new Error(`${user} got ${outcome.kind}`);
  return { id: outcome.reservationId, code: outcome.code };
}
async function takeCodes(campaign: TestCampaign, count: number): Promise<{ id: string; code: number | null }[]> {
  const taken = [];
  for (let i = 0; i < count; i += 1) taken.push(await takeCode(campaign, `user-${i}`));
  return taken;
}
const hint = async (campaign: TestCampaign) => (await campaign.inRedis()).fields.code_hint;

test('a pool hands out the lowest number that is free, and one that came back before a new one', async () => {
  const campaign = await openPool(20);
  const taken = await takeCodes(campaign, 9);
  expect(taken.map(({ code }) => code)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(await hint(campaign)).toBe('1');
  await campaign.release(String(taken[2]?.id));
  expect(await campaign.usedCodes()).toEqual([1, 2, 4, 5, 6, 7, 8, 9]);
  expect(await hint(campaign)).toBe('0');
  const again = await takeCodes(campaign, 2);
  expect(again.map(({ code }) => code)).toEqual([3, 10]);
  expect(await hint(campaign)).toBe('1');
  expect(await campaign.usedCodes()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});

test('a pool returns the code in the record, in the journal and to its holder', async () => {
  const campaign = await openPool(3);
  const { id } = await takeCode(campaign, 'ann');
  expect((await campaign.reservation(id))?.code).toBe('1');
  expect((await campaign.person('ann'))?.code).toBe('1');
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'reserved', reservation: id, code: 1, terms: 1 }]);
  expect(await campaign.standing('ann')).toMatchObject({ status: 'completed', reservationId: id, code: 1 });
});

test('a pool passes over what was redeemed by name', async () => {
  const campaign = await openPool(20);
  for (const code of [1, 2, 4, 18]) await campaign.use(`by-name-${code}`, code);
  const taken = await takeCodes(campaign, 14);
  expect(taken.map(({ code }) => code)).toEqual([3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]);
  expect((await takeCode(campaign, 'ann')).code).toBe(19);
  expect((await takeCode(campaign, 'bob')).code).toBe(20);
  expect((await campaign.checkout('cid')).kind).toBe('queued');
});

test('a pool has no more units than codes: sold out where there is no line', async () => {
  const campaign = await openPool(8, WITHOUT_LINE);
  expect((await takeCodes(campaign, 8)).at(-1)?.code).toBe(8);
  expect(await campaign.checkout('late')).toEqual({ kind: 'sold_out' });
  expect(await campaign.stock()).toMatchObject({ free: 22, held: 8 });
  const empty = await openPool(0, WITHOUT_LINE);
  expect(await empty.checkout('ann')).toEqual({ kind: 'sold_out' });
});

test('a pool lets people wait for a code, and serves them in their order when new ones are added', async () => {
  const campaign = await openPool(1);
  const first = await takeCode(campaign, 'ann');
  expect([await campaign.join('bob'), await campaign.join('cid'), await campaign.join('dan')]).toEqual([1, 2, 3]);
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 0 });
  expect(await campaign.addCodes(3)).toEqual({ kind: 'added' });
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 2 });
  expect(await campaign.line()).toEqual(['dan']);
  expect([(await campaign.person('bob'))?.code, (await campaign.person('cid'))?.code]).toEqual(['2', '3']);
  expect((await campaign.lastEntries(2)).map((entry) => 'code' in entry && entry.code)).toEqual([2, 3]);
  await campaign.release(first.id);
  expect(await campaign.standing('dan')).toMatchObject({ status: 'promoted', code: 1 });
  expect(await campaign.usedCodes()).toEqual([1, 2, 3]);
  expect(await campaign.stock()).toMatchObject({ free: 27, held: 3, waiting: 0 });
});

test('a head of the line without a code blocks the users behind who have one', async () => {
  const campaign = await openPool(2, { totalLimit: 2 });
  const first = await campaign.use('ann', 1);
  await campaign.take('bob');
  await campaign.join('cid');
  await campaign.restock(1);
  expect(await campaign.line()).toEqual(['cid']);
  await campaign.addCodes(3);
  expect(await campaign.redeem('dan', 3)).toMatchObject({ kind: 'queued', position: 2 });
  await campaign.release(first);
  expect(await campaign.standing('cid')).toMatchObject({ status: 'promoted', code: 1 });
  expect(await campaign.standing('dan')).toMatchObject({ status: 'queued', position: 1 });
  await campaign.restock(1);
  expect(await campaign.standing('dan')).toMatchObject({ status: 'promoted', code: 3 });
});

test('an unlimited stock ends with its codes, and goes on with those that come back', async () => {
  const campaign = await openPool(1, { totalLimit: null });
  const { id } = await takeCode(campaign, 'ann');
  expect(await campaign.join('bob')).toBe(1);
  await campaign.release(id);
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted', code: 1 });
});

test('a pool gives a thousand codes to a thousand people at once, each to one', async () => {
  const campaign = await openPool(1_000, { totalLimit: 5_000, perUserLimit: 1, ...WITHOUT_LINE });
  const outcomes = await Promise.all(Array.from({ length: 1_200 }, (_, i) => campaign.checkout(`user-${i}`)));
  const codes = outcomes.flatMap((outcome) => (outcome.kind === 'reserved' ? [outcome.code] : []));
  expect(codes.sort((a, b) => Number(a) - Number(b))).toEqual(Array.from({ length: 1_000 }, (_, i) => i + 1));
  expect(outcomes.filter(({ kind }) => kind === 'sold_out').length).toBe(200);
});

test('the next code of a pool without a limit belongs to those who wait, a code that was brought does not', async () => {
  const campaign = await sale.openCampaign({ totalLimit: null, type: 'pool', codes: 1 });
  await campaign.take('ann');
  await campaign.join('bob');
  await campaign.addCodes(3);
  expect(await campaign.join('cid')).toBe(2);
  await campaign.use('dan', 3);
  expect(await campaign.promote()).toEqual({ kind: 'promoted', count: 1 });
  expect(await campaign.standing('bob')).toMatchObject({ status: 'promoted', code: 2 });
});

test('several promotions of one call get different codes, freed ones first, and codes beyond the bitmap', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 0, type: 'pool', codes: 30, perUserLimit: 30 });
  const users = Array.from({ length: 12 }, (_, i) => `user-${i}`);
  for (const user of users) await campaign.join(user);
  await campaign.restock(12);
  expect(await campaign.usedCodes()).toEqual(Array.from({ length: 12 }, (_, i) => i + 1));
  const { reservations } = await campaign.inRedis();
  const byCode = new Map([...reservations].map(([id, { code }]) => [code, id]));
  for (const code of ['3', '9']) await campaign.letDeadlinePass(String(byCode.get(code)));
  for (const user of ['eve', 'fay', 'gus']) await campaign.join(user);
  await campaign.restock(1, { limit: 0 });
  expect(await campaign.expire()).toMatchObject({ expired: 2, promoted: 3 });
  const codes = await Promise.all(['eve', 'fay', 'gus'].map(async (user) => (await campaign.person(user))?.code));
  expect(codes.sort()).toEqual(['13', '3', '9']);
});
