import { afterEach, describe, expect, it, test } from '@jest/globals';
import type { CampaignNo } from '../../../shared/domain/ids.js';
import { decodeIdempotencyRecord } from '../../../shared/redis/idempotency-record.js';
import { keys } from '../../../shared/redis/keys.js';
import { type CheckoutOptions, newKey } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

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
  const orderId = `ord_${reservationId.replaceAll('-', '')}`;
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
    stacking: '',
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
    reduced: '',
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
      stacking: null,
      metadata: null,
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

test('puts a user who finds no free unit at the tail of the line and journals the place', async () => {
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
    stacking: 'combines',
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
      answer: `${no}|3|cid|Q|2|2|t9||0|${person?.reservation}`,
      device: 'pad',
      trace: 'x',
      stacking: 'combines',
      metadata: null,
    },
  ]);
});

test('returns the existing place to a waiting user with a new key, and records it under the new key', async () => {
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
    quotaLeft: 0,
    paceMs: null,
    presenceMs: 0,
    durable: false,
    journalId: await sale.journal.lastId(),
    atMs: expect.any(Number),
    reservationId: '',
  });
  expect(await campaign.inRedis()).toEqual(before);
  expect(await campaign.lastEntries(1)).toMatchObject([
    { kind: 'answered', no, key, answer: `${no}|1|cid|Q|2|2|||0|` },
  ]);
  await campaign.leave('bob');
  expect(await campaign.checkout('cid', { key })).toEqual({
    kind: 'replayed',
    no,
    answer: 'Q|2|2|||0|',
    durable: false,
  });
});

describe('the ticket of a place in line', () => {
  /** A place that ann has taken on her phone, and what a call with another key gets of it. */
  async function annWaits(options: CheckoutOptions = { device: 'phone', holderDevice: 'phone' }) {
    const campaign = await sale.openCampaign({ totalLimit: 1 });
    await campaign.take('bob');
    await campaign.join('ann', options);
    const place = String((await campaign.person('ann'))?.reservation);
    const ask = async (asking: CheckoutOptions) => {
      const outcome = await campaign.checkout('ann', asking);
      if (outcome.kind !== 'waiting') throw new Error(`unexpected: ${outcome.kind}`);
      return outcome.reservationId;
    };
    return { campaign, place, ask };
  }

  it('goes to the device that took it and to a caller who has proved to be the user', async () => {
    const { place, ask } = await annWaits();
    expect(await ask({ holderDevice: 'phone' })).toBe(place);
    expect(await ask({ proven: true })).toBe(place);
    expect(await ask({ proven: true, holderDevice: 'pad' })).toBe(place);
  });

  it('goes to no other user', async () => {
    const { ask } = await annWaits();
    for (const options of [{}, { device: 'phone' }, { holderDevice: 'pad' }, { holderDevice: 'phon' }]) {
      expect([options, await ask(options)]).toEqual([options, '']);
    }
  });

  it('goes to no device when the place was taken by none', async () => {
    const { ask } = await annWaits({ device: 'phone' });
    expect(await ask({ holderDevice: 'phone' })).toBe('');
  });

  it('goes to the device of this place, not of an earlier one', async () => {
    const { campaign, place, ask } = await annWaits();
    await campaign.leave('ann');
    await campaign.join('ann');
    expect(await ask({ holderDevice: 'phone' })).toBe('');
    await campaign.leave('ann');
    await campaign.join('ann', { holderDevice: 'pad' });
    expect(await ask({ holderDevice: 'phone' })).toBe('');
    expect(await ask({ holderDevice: 'pad' })).not.toBe(place);
    expect(await ask({ holderDevice: 'pad' })).toBe((await campaign.person('ann'))?.reservation);
  });

  it('is in the record as it was in the first answer', async () => {
    const { campaign, place } = await annWaits();
    const [strangers, anns] = [newKey(), newKey()];
    await campaign.checkout('ann', { key: strangers });
    await campaign.checkout('ann', { key: anns, holderDevice: 'phone' });
    const replay = async (key: string) => {
      const outcome = await campaign.checkout('ann', { key, proven: true, holderDevice: 'phone' });
      if (outcome.kind !== 'replayed') throw new Error(`unexpected: ${outcome.kind}`);
      return decodeIdempotencyRecord(outcome.answer);
    };
    expect(await replay(strangers)).toMatchObject({ ticketKey: null, reservationId: null });
    expect(await replay(anns)).toMatchObject({ ticketKey: 't1', reservationId: place });
  });
});

test('refuses another key of a waiting shopper who has used too many, and replays those that were answered', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  await campaign.take('ann');
  const [first, second] = [newKey(), newKey()];
  const newKeys = -1;
  expect(await campaign.checkout('bob', { key: first })).toMatchObject({ kind: 'queued', position: 1 });
  const before = await sale.journal.lastId();
  for (const _ of [1, 2]) {
    expect(await campaign.checkout('bob', { key: second, newKeys })).toEqual({ kind: 'place_limited' });
    expect(await campaign.checkout('bob', { key: first, newKeys })).toMatchObject({ kind: 'replayed' });
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
  expect(decodeIdempotencyRecord(again.kind === 'replayed' ? again.answer : '')).toEqual({
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
    answer: `Q|1|1|t1||0|${(await campaign.person('bob'))?.reservation}`,
    durable: false,
  });
  expect([await campaign.inRedis(), await sale.journal.lastId()]).toEqual([before, last]);
});

test('forgets a key when its time is over', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 2 });
  const key = newKey();
  await campaign.take('ann', { key });
  const ttl = await sale.redis.pttl(keys.idempotency('ann' as never, key as never));
  expect(ttl).toBeGreaterThan(590_000);
  expect(ttl).toBeLessThanOrEqual(600_000);
  await sale.redis.pexpire(keys.idempotency('ann' as never, key as never), 0);
  expect((await campaign.checkout('ann', { key })).kind).toBe('reserved');
});

test('counts the units taken of an unlimited stock and never lets a user wait', async () => {
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
