import { acknowledged, archived, flag, journaled, oneOf, rebuilding } from '../../redis/reply-fields.js';
import { type Decided, defineScript, type WithoutEntries } from '../../redis/script-contract.js';
import { MOVING_KEYS } from './sale-keys.js';

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
