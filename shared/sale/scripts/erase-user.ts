import { count, oneOf, rebuilding, reply, text } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf } from '../../redis/script-contract.js';

/** Maximum number of reservations of one user that one call changes: about 10 ms of Redis. */
export const MAX_ERASED = 10_000;

export const eraseUserScript = defineScript({
  name: 'erase_user',
  keys: ['campaign', 'people', 'reservations', 'line', 'holders', 'epoch'],
  args: ['user', 'pseudonym', 'check:flag', 'pass'],
  each: ['reservation_id'],
  replies: {
    erased: reply({ records: count }),
    active: reply({ state: oneOf(['waiting', 'held']), reservationId: text }),
    taken: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type EraseUserOutcome = OutcomeOf<typeof eraseUserScript>;
