import { count, flag, rebuilding, text } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf } from '../../redis/script-contract.js';

const position = (f: readonly string[]) => ({
  /** Number of the campaign, as scripts have it. */
  no: text(f, 0),
  atMs: count(f, 1),
  lastId: text(f, 2),
  reservation: text(f, 3),
  record: text(f, 4),
  stacking: text(f, 5),
});

export const readPromiseScript = defineScript({
  name: 'read_promise',
  keys: ['campaign', 'people', 'reservations', 'line', 'payments', 'journal', 'epoch'],
  args: ['reservation_id', 'user'],
  replies: {
    reservation: (f) => ({ ...position(f), payments: text(f, 6) }),
    place: (f) => ({ ...position(f), isWaiting: flag(f, 6) }),
    none: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type ReadPromiseOutcome = OutcomeOf<typeof readPromiseScript>;
