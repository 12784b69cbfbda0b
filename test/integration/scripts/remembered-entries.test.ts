import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import type { RawEntry } from '../../../shared/contracts/journal.js';
import type { Campaign } from '../../../shared/domain/campaign.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { type Acknowledged, decodeAcknowledged } from '../../../shared/sale/acknowledged.js';
import { decodeReservation } from '../../../shared/sale/reservation-record.js';
import type { SaleLimits } from '../../../shared/sale/sale-calls.js';
import { SaleStore } from '../../../shared/sale/sale-store.js';
import { UnpersistedPromises } from '../../../shared/sale/unpersisted-promises.js';
import { newKey, type TestCampaign } from '../../harness/campaign.js';
import { startSale, TEST_LIMITS } from '../../harness/sale.js';

/** What a process remembers of each call is what the script has appended, entry by entry and field by field. */
const sale = await startSale();
let promises = new UnpersistedPromises(10_000);
let start = '0-0';
let met = new Set<string>();
const { run } = sale.store.scripts;
const calls = jest.spyOn(sale.store.scripts, 'run');

beforeEach(async () => {
  promises = new UnpersistedPromises(10_000);
  start = await sale.journal.lastId();
  calls.mockClear();
});
afterEach(() => sale.expectConsistent());

async function open(terms: Partial<Campaign>, limits: Partial<SaleLimits> = {}): Promise<TestCampaign> {
  const campaign = await sale.openCampaign(terms);
  return campaign.through(new SaleStore(sale.store.scripts, { ...TEST_LIMITS, ...limits }, promises));
}

const ENDINGS = ['redeemed', 'released', 'expired', 'refunded', 'voided'];

/** @returns the kinds that were appended, in their order */
async function expectSame(): Promise<string[]> {
  const journal = await sale.journal.read(start, 10_000);
  // A response of a shopper that no other entry has is kept with its promise.
  const stream = journal.filter(({ fields }) => fields.kind !== 'answered' || fields.answer?.startsWith('restock|'));
  const remembered = everything().filter(({ fields }) => fields.kind !== 'acknowledged');
  expect(remembered.map(withoutRecord)).toEqual(stream.map(withoutRecord));
  expect(remembered.filter(({ fields }) => 'record' in fields).map(({ fields }) => fields.kind)).toEqual(
    stream.map(({ fields }) => fields.kind).filter((kind) => ENDINGS.includes(String(kind))),
  );
  const kinds = stream.map(({ fields }) => String(fields.kind));
  met = new Set([...met, ...kinds]);
  return kinds;
}

const everything = () => promises.after(start, Number.POSITIVE_INFINITY, 10_000);
const facts = (): Acknowledged[] =>
  everything()
    .filter(({ fields }) => fields.kind === 'acknowledged')
    .map(decodeAcknowledged);
const reads = () => calls.mock.calls.filter(([{ name }]) => name === 'read_promise').length;

function withoutRecord({ journalId, fields: { record: _, ...fields } }: RawEntry): RawEntry {
  return { journalId, fields: fields as RawEntry['fields'] };
}

/** The record that goes with the last entry of a kind. */
function recordWith(kind: string): object | undefined {
  const found = promises.after(start, Number.POSITIVE_INFINITY, 10_000).filter(({ fields }) => fields.kind === kind);
  const record = found.at(-1)?.fields.record;
  return record === undefined ? undefined : decodeReservation(record);
}

test('checkouts, places and answers, with every field', async () => {
  const campaign = await open({ type: 'pool', codes: 9, totalLimit: 3, perUserLimit: 2 }, { waitReplicas: 1 });
  const details = { device: 'phone', trace: '00-aa-01', order: 'cart-1', ticketKey: 't7' };
  await campaign.checkout('ann', { ...details, qty: 2, metadata: '{"cart":"1"}' });
  await campaign.redeem('bob', 4, details);
  await campaign.checkout('cid', { ...details, qty: 3 });
  await campaign.redeem('dan', 7, { ...details, metadata: JSON.stringify({ 'a\tb': 'c\nd|' }) });
  await campaign.checkout('cid', { key: newKey(), qty: 3 });
  const seen = await open({
    totalLimit: 0,
    confirmation: 'durable',
    waitingRoom: { enabled: true, maxSize: 9, presenceSeconds: 60 },
  });
  await seen.set({ pace: `9|${await sale.nowMs()}|1|9` });
  await seen.checkout('eve', { qty: 2 });
  await seen.checkout('eve', { qty: 2, key: newKey() });
  const nothingToPay = await open({ holdSeconds: 0, confirmation: 'durable' });
  await nothingToPay.checkout('fay');
  await nothingToPay.redeem('gus', 0);
  // A place under another key is kept whole, with the response that the journal has alone. That of eve waits for its
  // commit.
  const answered = (await sale.journal.read(start, 10)).filter(
    ({ fields }) => fields.kind === 'answered' && !fields.answer?.includes('eve'),
  );
  expect(facts().map(({ key, answer }) => ({ key, answer }))).toEqual(
    answered.map(({ fields }) => ({ key: fields.key, answer: fields.answer })),
  );
  expect(facts()).toMatchObject([{ user: 'cid', of: { kind: 'place', qty: 3, order: 'cart-1', isWaiting: true } }]);
  expect(await expectSame()).toEqual(['reserved', 'reserved', 'queued', 'queued', 'queued', 'reserved', 'reserved']);
});

test('the pause of a campaign for its velocity', async () => {
  const campaign = await open({ totalLimit: 100, rules: { velocity: 'pause', opening_minutes: 0 } });
  await Promise.all(Array.from({ length: 51 }, (_, i) => campaign.checkout(`user-${i}`)));
  expect(await campaign.stock()).toMatchObject({ status: 'paused' });
  expect((await expectSame()).at(-1)).toBe('status');
});

test('payments, releases, refunds, voids and what they promote', async () => {
  const campaign = await open({ totalLimit: 2, perUserLimit: 9, latePayment: 'reacquire' });
  const [first, second] = [await campaign.take('ann'), await campaign.take('bob', { order: 'cart-"2"\\/' })];
  await campaign.join('cid');
  await campaign.confirm(first, 'pay-1', '00-aa-01');
  expect(recordWith('redeemed')).toMatchObject({ state: 'redeemed', user: 'ann', qty: 1, slot: 1, lineNo: 0 });
  await campaign.confirm(first, 'pay-1');
  await campaign.release(second, null, 'changed "their" mind \\ ünïcode\n\t/', '00-bb-01');
  expect(recordWith('released')).toMatchObject({ state: 'released', user: 'bob', orderId: 'cart-"2"\\/' });
  await campaign.release(second);
  await campaign.refund(first);
  expect(recordWith('refunded')).toMatchObject({ state: 'refunded' });
  await campaign.confirm(second, 'late');
  expect(recordWith('redeemed')).toMatchObject({ state: 'reacquired', user: 'bob' });
  await campaign.void(second, 'returns', 'a_constraint');
  expect(recordWith('voided')).toMatchObject({ state: 'voided' });
  const late = await campaign.take('dan');
  await campaign.letDeadlinePass(late);
  await campaign.amend({ refundPolicy: 'burn', latePayment: 'refuse' });
  expect(await campaign.confirm(late)).toMatchObject({ kind: 'ended', journalId: await sale.journal.lastId() });
  expect(recordWith('expired')).toMatchObject({ state: 'expired', user: 'dan' });
  const burned = await campaign.take('eve');
  await campaign.confirm(burned);
  await campaign.confirm(burned, 'pay-1');
  await campaign.confirm(burned, 'pay-2');
  await campaign.refund(burned);
  expect(recordWith('refunded')).toMatchObject({ state: 'burned' });
  expect(await expectSame()).toContain('voided');
});

test('sweeps, promotions, restocks, the line and the status', async () => {
  const waitingRoom = { enabled: true, maxSize: 9, presenceSeconds: 60 };
  const campaign = await open({ totalLimit: 2, perUserLimit: 9, waitingRoom });
  for (const user of ['ann', 'ann']) await campaign.letDeadlinePass(await campaign.take(user));
  for (const user of ['bob', 'cid', 'dan', 'eve', 'fay']) await campaign.join(user);
  await campaign.expire();
  await campaign.restock(1, { limit: 0 });
  await campaign.promote();
  await campaign.restock(1, { key: newKey() });
  await campaign.leave('fay', '00-cc-01');
  const { reservations } = await campaign.inRedis();
  for (const [id, { state }] of reservations) if (state === 'reserved') await campaign.confirm(id);
  await campaign.join('gus');
  await campaign.join('hal');
  await campaign.letPresenceLapse('gus');
  await campaign.tend();
  await campaign.letPlaceLapse('gus');
  await campaign.tend();
  await campaign.tend({ settled: true });
  await campaign.setStatus('pause');
  const kinds = await expectSame();
  for (const kind of ['expired', 'restocked', 'answered', 'left', 'line_closed', 'status'])
    expect(kinds).toContain(kind);
});

test('a line that is closed a batch at a time, and a place that cannot be served', async () => {
  const campaign = await open({ type: 'pool', codes: 9, totalLimit: 1, perUserLimit: 2 });
  const bought = await campaign.use('ann', 1);
  for (const [i, user] of ['bob', 'cid', 'dan'].entries()) await campaign.redeem(user, i + 2);
  await campaign.confirm(bought);
  await campaign.tend({ settled: true }, 2);
  await campaign.tend({ settled: true }, 2);
  expect((await expectSame()).slice(-4)).toEqual(['left', 'left', 'left', 'line_closed']);
});

test('a checkout and a promotion have the same fields in the same order, which the stream stores once', async () => {
  const campaign = await open({ totalLimit: 1 });
  const held = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.release(held);
  const stream = await sale.journal.read(start, 10);
  const [first, second] = stream.filter(({ fields }) => fields.kind === 'reserved');
  expect(Object.keys(second?.fields ?? {})).toEqual(Object.keys(first?.fields ?? { none: '' }));
});

test('nothing is remembered of a call that appends nothing', async () => {
  const campaign = await open({ totalLimit: 1 }, { journalLimitEntries: 0 });
  expect((await campaign.checkout('ann')).kind).toBe('journal_full');
  expect(await campaign.leave('ann')).toMatchObject({ kind: 'not_waiting' });
  expect(promises.size).toBe(0);
});

test('a repetition is kept as what it acknowledges, once, and a first response reads nothing', async () => {
  const campaign = await open({ totalLimit: 3, perUserLimit: 9 });
  const key = newKey();
  await campaign.checkout('ann', { key, order: 'cart-1', qty: 2 });
  const paid = String((await campaign.person('ann'))?.reservation);
  const [refunded] = [await campaign.take('bob')];
  await campaign.join('cid');
  await campaign.join('dan');
  await campaign.confirm(paid, 'pay-1');
  await campaign.confirm(refunded);
  await campaign.refund(refunded);
  await campaign.leave('dan');
  expect(reads()).toBe(0);
  const last = await sale.journal.lastId();
  for (let times = 1; times <= 3; times += 1) {
    await campaign.checkout('ann', { key, order: 'cart-1', qty: 2 });
    await campaign.confirm(paid, 'pay-1');
    await campaign.refund(refunded);
    await campaign.leave('dan');
    expect(reads()).toBe(4 * times);
  }
  expect(await sale.journal.lastId()).toBe(last);
  const [replayed, ...others] = facts();
  expect(replayed).toMatchObject({
    reservation: paid,
    user: 'ann',
    key,
    of: { record: { state: 'redeemed', qty: 2 } },
  });
  const entry = (await sale.journal.read(start, 10)).find(({ fields }) => fields.key === key);
  expect(replayed?.answer).toBe(entry?.fields.answer);
  expect(replayed?.stacking).toBe(entry?.fields.stacking);
  expect(others).toMatchObject([
    { reservation: paid, key: '', of: { record: { state: 'redeemed' }, payments: ['pay-1'] } },
    { reservation: refunded, of: { record: { state: 'refunded' } } },
    { user: 'dan', of: { kind: 'place', isWaiting: false, hasLeft: true } },
  ]);
  // Another payment is an entry without the reservation, so the reservation is kept beside it.
  await campaign.confirm(paid, 'pay-2');
  expect(facts().at(-1)).toMatchObject({ reservation: paid, of: { payments: ['pay-1', 'pay-2'] } });
  promises.committed(await sale.journal.lastId());
  expect(promises.size).toBe(0);
  await campaign.confirm(paid, 'pay-1');
  expect(promises.size).toBe(0);
});

test('a durable response waits for its commit, so its repetition is neither read nor kept', async () => {
  const campaign = await open({ totalLimit: 4, perUserLimit: 9, confirmation: 'durable' });
  const key = newKey();
  const [paid, released] = [await campaign.take('ann'), await campaign.take('bob')];
  for (let times = 0; times < 2; times += 1) {
    await campaign.checkout('cid', { key });
    await campaign.confirm(paid, 'pay-1');
    await campaign.release(released);
  }
  await campaign.confirm(paid, 'pay-2');
  expect([reads(), facts()]).toEqual([0, []]);
});

test('a fact is found by its user, and its id does not contain the key', async () => {
  const campaign = await open({ totalLimit: 2, perUserLimit: 9 });
  const key = newKey();
  for (let times = 0; times < 2; times += 1) await campaign.checkout('ann', { key });
  const id = String((await campaign.person('ann'))?.reservation);
  for (let times = 0; times < 2; times += 1) await campaign.confirm(id, 'pay-1');
  const kept = everything().filter(({ fields }) => fields.kind === 'acknowledged');
  expect(kept.map(({ fields }) => [fields.user, fields.key])).toEqual([
    ['ann', key],
    ['ann', ''],
  ]);
  expect(kept.filter(({ journalId }) => journalId.includes(key))).toEqual([]);
  expect(new Set(kept.map(({ journalId }) => journalId)).size).toBe(2);
});

test('a release and an extension are kept when they are repeated', async () => {
  const campaign = await open({ totalLimit: 2, perUserLimit: 9 });
  const [released, extended] = [await campaign.take('ann'), await campaign.take('bob')];
  for (let times = 0; times < 2; times += 1) {
    await campaign.release(released);
    await campaign.extend(extended, 60_000);
  }
  expect(reads()).toBe(2);
  expect(facts()).toMatchObject([
    { reservation: released, of: { record: { state: 'released' } } },
    { reservation: extended, of: { record: { state: 'reserved' } } },
  ]);
});

test('a response is not sent when its promise cannot be read', async () => {
  const campaign = await open({ totalLimit: 1 });
  const key = newKey();
  await campaign.checkout('ann', { key });
  calls.mockImplementation((script, call) =>
    script.name === 'read_promise'
      ? Promise.reject(new EngineUnavailable('redis', 'it hangs'))
      : run.call(sale.store.scripts, script, call),
  );
  await expect(campaign.checkout('ann', { key })).rejects.toThrow(EngineUnavailable);
  calls.mockRestore();
});

test('every script whose reply acknowledges a promise is kept when it is repeated, or is one of these', () => {
  const folder = sale.store.scripts.luaFolder;
  const headerOf = (file: string) =>
    /-- REPLY\n.*-- JOURNALS/s.exec(readFileSync(join(folder, file), 'utf8'))?.[0] ?? '';
  const acknowledging = readdirSync(folder).filter(
    (file) => file.endsWith('.lua') && /\bdurable\b/.test(headerOf(file)),
  );
  const repeated = ['confirm', 'extend', 'leave', 'refund', 'release', 'reserve'];
  // Operators repeat a change of stock or status until it is committed; a standing is read.
  const others = ['restock', 'set_status', 'shopper_status'];
  expect(acknowledging.map((file) => file.replace('.lua', '')).sort()).toEqual([...repeated, ...others].sort());
});

test('every kind of entry has been compared in this file', () => {
  expect([...met].sort()).toEqual(
    [...ENDINGS, 'paid_again', 'reserved', 'queued', 'answered', 'left', 'line_closed', 'restocked', 'status'].sort(),
  );
});
