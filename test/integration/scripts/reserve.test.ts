import { afterEach, expect, test } from '@jest/globals';
import type { CampaignNo } from '../../../shared/domain/ids.js';
import { keys } from '../../../shared/redis/keys.js';
import { decodeRememberedAnswer } from '../../../shared/redis/remembered-answer.js';
import { newKey } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(async () => expect(await sale.audit()).toEqual([]));

test('gives a free unit until the deadline and journals the promise', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2, holdSeconds: 90, confirmation: 'durable' });
  const [earliest, key] = [await sale.nowMs(), newKey()];
  const outcome = await campaign.checkout('ann', {
    qty: 2,
    key,
    device: 'phone',
    ticketKey: 't7',
    trace: '00-aa-bb-01',
  });
  const latest = await sale.nowMs();

  if (outcome.kind !== 'reserved') throw new Error(`unexpected: ${outcome.kind}`);
  const { reservationId, dueMs, journalId } = outcome;
  const orderId = `ord_${reservationId.replaceAll('-', '').slice(0, 24)}`;
  expect(outcome).toEqual({
    kind: 'reserved',
    reservationId,
    orderId,
    dueMs,
    durable: true,
    journalId,
    quotaLeft: 19,
    code: null,
    terms: 1,
    slot: 1,
    atMs: dueMs - 90_000,
  });
  expect(reservationId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{4}/);
  expect(reservationId.slice(28)).toBe(campaign.terms.no.toString(16).padStart(8, '0'));
  expect(dueMs - 90_000).toBeGreaterThanOrEqual(earliest);
  expect(dueMs - 90_000).toBeLessThanOrEqual(latest);

  const answer = `C|${reservationId}|${orderId}|${dueMs}|t7|1||1`;
  expect(await campaign.stock()).toEqual({
    status: 'open',
    total: 2,
    free: 0,
    held: 2,
    redeemed: 0,
    burned: 0,
    waiting: 0,
  });
  expect(await campaign.reservation(reservationId)).toEqual({
    state: 'reserved',
    user: 'ann',
    qty: 2,
    slot: 1,
    dueMs,
    lineNo: 0,
    order: orderId,
    code: '',
  });
  expect(await campaign.entries()).toEqual([
    {
      kind: 'reserved',
      journalId,
      no: campaign.terms.no,
      atMs: dueMs - 90_000,
      reservation: reservationId,
      user: 'ann',
      order: orderId,
      qty: 2,
      slot: 1,
      dueMs,
      lineNo: 0,
      state: 'reserved',
      code: null,
      terms: 1,
      key,
      answer: `${campaign.terms.no}|2|ann|${answer}`,
      device: 'phone',
      trace: '00-aa-bb-01',
    },
  ]);
});

test('redeems at once when nothing is to be paid, under the order id that was given', async () => {
  const campaign = await sale.openCampaign({ holdSeconds: 0 });
  const outcome = await campaign.checkout('ann', { order: 'cart-7' });
  expect(outcome).toMatchObject({ kind: 'reserved', orderId: 'cart-7', dueMs: 0, durable: false });
  expect(await campaign.stock()).toMatchObject({ free: 9, held: 0, redeemed: 1 });
  expect(await campaign.lastEntries(1)).toMatchObject([
    { kind: 'reserved', state: 'redeemed', order: 'cart-7', dueMs: 0 },
  ]);
});

test('puts whoever finds nothing free at the tail of the line and journals the place', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 3 });
  const { no } = campaign.terms;
  await campaign.take('ann', { qty: 3 });
  expect(await campaign.join('bob')).toBe(1);
  const key = newKey();
  const outcome = await campaign.checkout('cid', {
    qty: 3,
    key,
    order: 'cart-1',
    device: 'pad',
    ticketKey: 't9',
    trace: 'x',
  });
  expect(outcome).toEqual({
    kind: 'queued',
    no,
    position: 2,
    queueSize: 2,
    durable: false,
    journalId: await sale.journal.lastId(),
    quotaLeft: 19,
    paceMs: null,
    presenceMs: 0,
    lineNo: 2,
    atMs: expect.any(Number),
  });
  expect(await campaign.line()).toEqual(['bob', 'cid']);
  const person = await campaign.person('cid');
  expect(person).toEqual({
    state: 'queued',
    slots: [],
    lineNo: 2,
    qty: 3,
    reservation: person?.reservation,
    order: 'cart-1',
    code: '',
  });
  expect(await campaign.lastEntries(1)).toEqual([
    {
      kind: 'queued',
      no,
      atMs: expect.any(Number),
      reservation: person?.reservation,
      user: 'cid',
      order: 'cart-1',
      qty: 3,
      lineNo: 2,
      code: null,
      key,
      answer: `${no}|3|cid|Q|2|2|t9`,
      device: 'pad',
      trace: 'x',
    },
  ]);
});

test('tells a waiting shopper with a new key the place he has, and remembers that under the new key', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 2 });
  const { no } = campaign.terms;
  await campaign.take('ann', { qty: 2 });
  await campaign.join('bob');
  await campaign.join('cid', { qty: 2 });
  const [before, key] = [await campaign.inRedis(), newKey()];
  expect(await campaign.checkout('cid', { key })).toEqual({
    kind: 'waiting',
    no,
    position: 2,
    queueSize: 2,
    quotaLeft: 20,
    paceMs: null,
    presenceMs: 0,
    durable: false,
    journalId: await sale.journal.lastId(),
    atMs: expect.any(Number),
  });
  expect(await campaign.inRedis()).toEqual(before);
  expect(await campaign.lastEntries(1)).toMatchObject([{ kind: 'answered', no, key, answer: `${no}|1|cid|Q|2|2|t1` }]);
  await campaign.leave('bob');
  expect(await campaign.checkout('cid', { key })).toEqual({ kind: 'replayed', no, answer: 'Q|2|2|t1', durable: false });
});

test('refuses another key of a waiting shopper who has used too many, and replays those that were answered', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.take('ann');
  const [first, second] = [newKey(), newKey()];
  const mayUseNewKeys = false;
  expect(await campaign.checkout('bob', { key: first, mayUseNewKeys })).toMatchObject({ kind: 'queued', position: 1 });
  const before = await sale.journal.lastId();
  for (const _ of [1, 2]) {
    expect(await campaign.checkout('bob', { key: second, mayUseNewKeys })).toEqual({ kind: 'place_limited' });
    expect(await campaign.checkout('bob', { key: first, mayUseNewKeys })).toMatchObject({ kind: 'replayed' });
  }
  expect(await sale.journal.lastId()).toBe(before);
  expect(await campaign.checkout('bob', { key: second })).toMatchObject({ kind: 'waiting', position: 1 });
});

test('gives the first answer to a repeated key, whatever has changed since, and changes nothing', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const { no } = campaign.terms;
  const [annsKey, bobsKey] = [newKey(), newKey()];
  const first = await campaign.checkout('ann', { key: annsKey });
  const second = await campaign.checkout('bob', { key: bobsKey });
  if (first.kind !== 'reserved' || second.kind !== 'queued') throw new Error('unexpected');
  await campaign.release(first.reservationId);
  await campaign.setStatus('close');

  const [before, last] = [await campaign.inRedis(), await sale.journal.lastId()];
  const again = await campaign.checkout('ann', { key: annsKey });
  expect(again).toEqual({
    kind: 'replayed',
    no,
    durable: false,
    answer: `C|${first.reservationId}|${first.orderId}|${first.dueMs}|t1|0||1`,
  });
  expect(decodeRememberedAnswer(again.kind === 'replayed' ? again.answer : '')).toEqual({
    kind: 'completed',
    reservationId: first.reservationId,
    orderId: first.orderId,
    dueMs: first.dueMs,
    ticketKey: 't1',
    durability: 'journaled',
    code: null,
    terms: 1,
  });
  expect(await campaign.checkout('bob', { key: bobsKey })).toEqual({
    kind: 'replayed',
    no,
    answer: 'Q|1|1|t1',
    durable: false,
  });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('forgets a key when its time is over', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 2 });
  const key = newKey();
  await campaign.take('ann', { key });
  const ttl = await sale.redis.pttl(keys.idempotency(key as never));
  expect(ttl).toBeGreaterThan(590_000);
  expect(ttl).toBeLessThanOrEqual(600_000);
  await sale.redis.pexpire(keys.idempotency(key as never), 0);
  expect((await campaign.checkout('ann', { key })).kind).toBe('reserved');
});

test('counts what is taken of an unlimited stock and never lets anybody wait', async () => {
  const campaign = await sale.openCampaign({ totalLimit: null, no: 4_000_000_000 as CampaignNo });
  const reservation = await campaign.take('ann', { qty: 3 });
  expect(reservation.slice(28)).toBe('ee6b2800');
  await campaign.confirm(await campaign.take('bob'));
  expect(await campaign.stock()).toEqual({
    status: 'open',
    total: null,
    free: null,
    held: 3,
    redeemed: 1,
    burned: 0,
    waiting: 0,
  });
  await campaign.release(reservation);
  expect(await campaign.stock()).toEqual({
    status: 'open',
    total: null,
    free: null,
    held: 0,
    redeemed: 1,
    burned: 0,
    waiting: 0,
  });
});

test('takes the lowest allowance that is free, so that a returned one is used again', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 3 });
  const slotOf = async (id: string) => (await campaign.reservation(id))?.slot;
  const [first, second, third] = [await campaign.take('ann'), await campaign.take('ann'), await campaign.take('ann')];
  expect([await slotOf(first), await slotOf(second), await slotOf(third)]).toEqual([1, 2, 3]);
  expect(await campaign.checkout('ann')).toEqual({ kind: 'limit_reached' });
  await campaign.release(second);
  expect(await slotOf(await campaign.take('ann'))).toBe(2);
  expect((await campaign.person('ann'))?.slots.sort()).toEqual([1, 2, 3]);
});
