import { archived, count, rebuilding, reply } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf } from '../../redis/script-contract.js';

export const checkOrderClaimScript = defineScript({
  name: 'check_order_claim',
  keys: ['campaign', 'people', 'reservations', 'line', 'order', 'epoch'],
  args: ['reservation_id', 'user', 'unknown:flag'],
  replies: { held: () => ({}), freed: () => ({}), archived, not_found: () => ({}), rebuilding },
});

export const checkRedeemableScript = defineScript({
  name: 'check_redeemable',
  keys: ['campaign', 'people', 'codes', 'epoch'],
  args: ['user', 'code:int'],
  replies: {
    usable: reply({ free: count, total: count }),
    code_used: () => ({}),
    limit_reached: () => ({}),
    sold_out: () => ({}),
    line_full: () => ({}),
    paused: () => ({}),
    ended: () => ({}),
    not_started: reply({ startsAtMs: count }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type CheckRedeemableOutcome = OutcomeOf<typeof checkRedeemableScript>;
