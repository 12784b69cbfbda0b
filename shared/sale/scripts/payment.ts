import { acknowledged, archived, count, flag, journaled, oneOf, rebuilding } from '../../redis/reply-fields.js';
import { type Decided, defineScript, type WithoutEntries } from '../../redis/script-contract.js';
import { MOVING_KEYS } from './sale-keys.js';

export const refundScript = defineScript({
  name: 'refund',
  keys: MOVING_KEYS,
  args: ['reservation_id', 'keep:int', 'actor', 'trace'],
  replies: {
    refunded: (f) => ({ returned: flag(f, 0), ...acknowledged(f, 1) }),
    kept: (f) => ({ qty: count(f, 0), refunded: count(f, 1), burned: count(f, 2), ...acknowledged(f, 3) }),
    unpaid: (f) => ({ state: oneOf(f, 0, ['reserved', 'released', 'expired', 'voided']) }),
    archived,
    not_found: () => ({}),
    rebuilding,
  },
});
export type RefundOutcome = WithoutEntries<Decided<typeof refundScript>>;

export const extendScript = defineScript({
  name: 'extend',
  keys: [...MOVING_KEYS, 'payments'],
  args: ['reservation_id', 'extend_ms:int', 'actor', 'trace'],
  replies: {
    extended: (f) => ({ dueMs: count(f, 0), ...acknowledged(f, 1) }),
    ended: (f) => ({ state: oneOf(f, 0, ['released', 'expired']) }),
    not_allowed: () => ({}),
    settled: (f) => ({ state: oneOf(f, 0, ['redeemed', 'reacquired', 'refunded', 'burned', 'voided']) }),
    archived,
    not_found: () => ({}),
    rebuilding,
  },
});
export type ExtendOutcome = WithoutEntries<Decided<typeof extendScript>>;

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
