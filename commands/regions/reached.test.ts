import { expect, test } from '@jest/globals';
import { isReached, type Known } from './reached.js';

const nothing: Known = { status: null, qty: null, extended: null, payments: [], place: null };
const row = (status: Known['status'], more: Partial<Known> = {}): Known => ({
  ...{ ...nothing, status, qty: 3, extended: false },
  ...more,
});

test.each([
  ['reserved', null, nothing, false],
  ['reserved', null, row('reserved'), true],
  ['reserved', null, row('expired'), true],
  ['reserved', 2, row('reserved'), false],
  ['reserved', 3, row('reserved'), true],
  ['redeemed', null, row('reserved'), false],
  ['redeemed', null, row('expired'), false],
  ['redeemed', null, row('redeemed'), true],
  ['redeemed', null, row('refunded'), true],
  ['redeemed', 1, row('redeemed'), false],
  ['released', null, row('reserved'), false],
  ['released', null, row('redeemed'), true],
  ['refunded', null, row('redeemed'), false],
  ['refunded', null, row('refunded'), true],
  ['extended', null, row('reserved'), false],
  ['extended', null, row('expired'), false],
  ['extended', null, row('expired', { extended: true }), true],
  ['extended', null, row('redeemed'), true],
  ['paid_again', null, row('redeemed'), false],
  ['paid_again', null, row('redeemed', { payments: ['a', 'b'] }), true],
  ['queued', null, nothing, false],
  ['queued', null, { ...nothing, place: 'waiting' }, true],
  ['queued', null, row('reserved'), true],
  ['left', null, { ...nothing, place: 'waiting' }, false],
  ['left', null, { ...nothing, place: 'left' }, true],
  ['left', null, nothing, false],
] as const)('%s with %p units is in a database with %j: %s', (status, qty, known, expected) => {
  expect(isReached({ status, qty, payment_ref: null }, known)).toBe(expected);
});

test('a payment is reached by its reference, not by another payment of the reservation', () => {
  const known = row('redeemed', { payments: ['a', 'b'] });
  const isKnown = (status: 'redeemed' | 'paid_again', payment_ref: string) =>
    isReached({ status, qty: null, payment_ref }, known);
  expect([isKnown('redeemed', 'a'), isKnown('paid_again', 'b')]).toEqual([true, true]);
  expect([isKnown('redeemed', 'c'), isKnown('paid_again', 'c')]).toEqual([false, false]);
  // The first charges are lost, and the second one was the first to arrive again.
  const again = row('redeemed', { payments: ['b'] });
  expect(isReached({ status: 'paid_again', qty: null, payment_ref: 'b' }, again)).toBe(true);
  // A reservation that was confirmed without a reference.
  expect(isReached({ status: 'redeemed', qty: null, payment_ref: 'a' }, row('redeemed'))).toBe(true);
});
