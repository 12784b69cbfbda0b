import { type Decided, defineScript, type WithoutEntries } from '../script-runner.js';
import { acknowledged, archived, flag, journaled, oneOf, rebuilding, text } from './reply-fields.js';
import { MOVING_KEYS } from './sale-keys.js';

export const confirmScript = defineScript({
  name: 'confirm',
  keys: MOVING_KEYS,
  args: ['reservation_id', 'payment_ref', 'trace'],
  replies: {
    redeemed: (f) => ({ orderId: text(f, 0), reacquired: flag(f, 1), ...acknowledged(f, 2) }),
    ended: (f) => ({
      state: oneOf(f, 0, ['released', 'expired', 'refunded', 'burned', 'voided']),
      ...acknowledged(f, 1),
    }),
    archived,
    not_found: () => ({}),
    rebuilding,
  },
});
export type ConfirmOutcome = WithoutEntries<Decided<typeof confirmScript>>;

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
