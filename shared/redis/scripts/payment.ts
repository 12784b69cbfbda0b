import type { OrderId, ReservationId, UserId } from '../../domain/ids.js';
import { type Decided, defineScript, type WithoutEntries } from '../script-runner.js';
import { acknowledged, archived, flag, journaled, oneOf, rebuilding, text } from './reply-fields.js';
import { MOVING_KEYS } from './sale-keys.js';

export const confirmScript = defineScript({
  name: 'confirm',
  keys: [...MOVING_KEYS, 'order', 'payments'],
  args: ['reservation_id', 'payment_ref', 'trace', 'order_state', 'order_ttl_ms'],
  replies: {
    redeemed: (f) => ({ orderId: text(f, 0), reacquired: flag(f, 1), paidBy: text(f, 2), ...acknowledged(f, 3) }),
    ended: (f) => ({
      state: oneOf(f, 0, ['released', 'expired', 'refunded', 'burned', 'voided']),
      ...acknowledged(f, 1),
    }),
    order_needed: (f) => ({ user: text(f, 0) as UserId, order: text(f, 1) as OrderId }),
    not_combinable: (f) => ({ reservations: f as unknown as readonly ReservationId[] }),
    archived,
    not_found: () => ({}),
    rebuilding,
  },
});
/** The store settles what it must know of the order. */
export type ConfirmOutcome = Exclude<
  WithoutEntries<Decided<typeof confirmScript>>,
  { kind: 'order_needed' | 'not_combinable' }
>;

export const releaseScript = defineScript({
  name: 'release',
  keys: MOVING_KEYS,
  args: ['reservation_id', 'holder', 'reason', 'trace'],
  replies: {
    released: (f) => ({ state: oneOf(f, 0, ['released', 'expired']), ...acknowledged(f, 1) }),
    settled: (f) => ({
      state: oneOf(f, 0, ['redeemed', 'reacquired', 'refunded', 'burned', 'voided']),
      ...acknowledged(f, 1),
    }),
    foreign: () => ({}),
    archived,
    not_found: () => ({}),
    rebuilding,
  },
});
export type ReleaseOutcome = WithoutEntries<Decided<typeof releaseScript>>;

export const refundScript = defineScript({
  name: 'refund',
  keys: MOVING_KEYS,
  args: ['reservation_id', 'trace'],
  replies: {
    refunded: (f) => ({ returned: flag(f, 0), ...acknowledged(f, 1) }),
    unpaid: (f) => ({ state: oneOf(f, 0, ['reserved', 'released', 'expired', 'voided']) }),
    archived,
    not_found: () => ({}),
    rebuilding,
  },
});
export type RefundOutcome = WithoutEntries<Decided<typeof refundScript>>;

export const voidScript = defineScript({
  name: 'void',
  keys: MOVING_KEYS,
  args: ['reservation_id', 'unit', 'reason'],
  replies: {
    voided: (f) => journaled(f, 0),
    not_active: (f) => ({ state: oneOf(f, 0, ['released', 'expired', 'refunded', 'burned']) }),
    archived,
    not_found: () => ({}),
    rebuilding,
  },
});
export type VoidOutcome = WithoutEntries<Decided<typeof voidScript>>;
