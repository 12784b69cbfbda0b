import { randomUUID } from 'node:crypto';
import { afterEach, expect, test } from '@jest/globals';
import type { UserId } from '../../../shared/domain/ids.js';
import { keys } from '../../../shared/redis/keys.js';
import { CampaignArchive } from '../../../shared/sale/campaign-archive.js';
import { UserRecords } from '../../../shared/sale/user-records.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
const records = new UserRecords(sale.store.scripts);
const ANN = 'ann' as UserId;
const newName = () => `erased-${randomUUID()}` as UserId;
const erase = (campaign: TestCampaign, ids: readonly string[] = [], name = newName()) =>
  records.erase(campaign.product, ANN, name, ids);
const raw = async ({ product }: TestCampaign) => ({
  people: await sale.redis.hgetall(keys.people(product)),
  reservations: await sale.redis.hgetall(keys.reservations(product)),
});

afterEach(() => sale.expectConsistent());

test('erase_user renames a user and all of their reservations, and journals nothing', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 5, perUserLimit: 3 });
  const paid = await campaign.take('ann');
  await campaign.confirm(paid);
  const released = await campaign.take('ann');
  await campaign.release(released);
  const other = await campaign.take('bob');
  const before = await sale.journal.lastId();
  const stock = await campaign.store.reader.stock(campaign.product);
  const name = newName();
  expect(await erase(campaign, [paid, released, other], name)).toEqual({ kind: 'erased', records: 3 });
  const { people, reservations } = await raw(campaign);
  expect(Object.keys(people).sort()).toEqual(['bob', name]);
  expect(JSON.stringify({ people, reservations })).not.toContain('ann');
  expect(reservations[other]).toContain('|bob|');
  expect(await sale.journal.lastId()).toBe(before);
  expect(await campaign.store.reader.stock(campaign.product)).toEqual(stock);
  expect(await campaign.refund(paid)).toMatchObject({ kind: 'refunded' });
  expect(await erase(campaign, [paid, released])).toEqual({ kind: 'erased', records: 0 });
});

test('erase_user refuses a user who waits or holds an unpaid unit, also an earlier one, and changes nothing', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, perUserLimit: 2 });
  const first = await campaign.take('ann');
  const second = await campaign.take('ann');
  expect(await erase(campaign)).toEqual({ kind: 'active', state: 'held', reservationId: second });
  await campaign.confirm(second);
  const before = await raw(campaign);
  expect(await erase(campaign, [first, second])).toEqual({ kind: 'active', state: 'held', reservationId: first });
  expect(await raw(campaign)).toEqual(before);
  const full = await sale.openCampaign({ totalLimit: 1 });
  await full.take('bob');
  await full.join('ann');
  expect(await erase(full)).toMatchObject({ kind: 'active', state: 'waiting' });
  await full.leave('ann');
  expect(await erase(full)).toEqual({ kind: 'erased', records: 1 });
});

test('erase_user refuses a user whose last unit Postgres does not have yet, and only looks when asked to', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 5 });
  const paid = await campaign.take('ann');
  await campaign.confirm(paid);
  expect(await erase(campaign)).toEqual({ kind: 'active', state: 'held', reservationId: paid });
  const before = await raw(campaign);
  const look = records.erase(campaign.product, ANN, newName(), [paid], { check: true });
  expect(await look).toEqual({ kind: 'erased', records: 0 });
  expect(await raw(campaign)).toEqual(before);
  expect(await erase(campaign, [paid])).toEqual({ kind: 'erased', records: 2 });
});

test('erase_user needs a new pseudonym when the user came back', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 5 });
  const name = newName();
  const ids: string[] = [];
  for (const expected of ['erased', 'taken']) {
    const bought = await campaign.take('ann');
    await campaign.confirm(bought);
    ids.push(bought);
    expect(await erase(campaign, ids, name)).toMatchObject({ kind: expected });
  }
  expect(await erase(campaign, ids)).toEqual({ kind: 'erased', records: 2 });
});

test('erase_user begins a pass of an archived campaign, so that an earlier recall writes nothing', async () => {
  const campaign = await sale.openCampaign();
  await campaign.confirm(await campaign.take('ann'));
  await campaign.setStatus('close');
  const archive = new CampaignArchive(sale.store.scripts);
  const limits = { entries: 500, graceMs: 0, restMs: 0 };
  const counted = { redeemed: 1, burned: 0, reservations: 1 };
  await archive.archive(campaign.product, await sale.journal.lastId(), counted, limits);
  const pass = String((await campaign.store.reader.archived(campaign.product))?.pass);
  expect(await erase(campaign)).toEqual({ kind: 'erased', records: 0 });
  const person = {
    ...{ state: 'held', inLine: false, slots: [1], lineNo: 0, qty: 1, reservationId: 'x', orderId: '', code: null },
  } as never;
  const late = await archive.restoreUser(campaign.product, pass, ANN, person, new Map(), new Map());
  expect(late).toEqual({ kind: 'late' });
});
