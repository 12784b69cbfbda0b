import { expect, test } from '@jest/globals';
import type { SnapshotReservation } from '../postgres/snapshot.js';
import { deriveUsers } from './derive.js';

const AT_MS = 1_000;
const row = (id: string, slot: number, more: Partial<SnapshotReservation> = {}): SnapshotReservation => ({
  ...{ id, user: 'ann', order: `order-${id}`, qty: 1, slot, status: 'reserved', burned: false, reacquired: false },
  ...{ lineNo: 0, dueMs: 9_000, extended: false, reservedMs: AT_MS, redeemedMs: 0, payments: [], code: null },
  ...{ reduced: null, key: null, answer: null, ...more },
});
const personOf = (...reservations: SnapshotReservation[]) =>
  deriveUsers([{ user: 'ann', reservations, tickets: [] }], { closed: false }).people[0]?.[1];

test('the record of a user has the last of several reservations of one millisecond, and the slots of all', () => {
  expect(personOf(row('first', 1), row('second', 2))).toMatchObject({ reservationId: 'second', slots: [1, 2] });
});

test('a reservation that was paid late is the last one, also among those of its millisecond', () => {
  const late = row('first', 1, { status: 'redeemed', reacquired: true, redeemedMs: AT_MS });
  expect(personOf(late, row('second', 2))).toMatchObject({ reservationId: 'first', slots: [1, 2] });
});
