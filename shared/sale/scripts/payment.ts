import { acknowledged, archived, count, flag, journaled, oneOf, rebuilding, reply } from '../../redis/reply-fields.js';
import { type Decided, defineScript, type WithoutEntries } from '../../redis/script-contract.js';
import { MOVING_KEYS } from './sale-keys.js';

export const refundScript = defineScript({
  name: 'refund',
  keys: MOVING_KEYS,
  args: ['reservation_id', 'keep:int', 'actor', 'trace'],
  replies: {
    refunded: reply({ returned: flag }, acknowledged),
    kept: reply({ qty: count, refunded: count, burned: count }, acknowledged),
    unpaid: reply({ state: oneOf(['reserved', 'released', 'expired', 'voided']) }),
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
    extended: reply({ dueMs: count }, acknowledged),
    ended: reply({ state: oneOf(['released', 'expired']) }),
    not_allowed: () => ({}),
    settled: reply({ state: oneOf(['redeemed', 'reacquired', 'refunded', 'burned', 'voided']) }),
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
    voided: journaled,
    not_active: reply({ state: oneOf(['released', 'expired', 'refunded', 'burned']) }),
    archived,
    not_found: () => ({}),
    rebuilding,
  },
});
export type VoidOutcome = WithoutEntries<Decided<typeof voidScript>>;
