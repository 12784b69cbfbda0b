import { count, flag, rebuilding, reply, text } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf } from '../../redis/script-contract.js';

/** `no`: number of the campaign, as scripts have it. */
const position = { no: text, atMs: count, lastId: text, reservation: text, record: text, stacking: text };

export const readPromiseScript = defineScript({
  name: 'read_promise',
  keys: ['campaign', 'people', 'reservations', 'line', 'payments', 'journal', 'epoch'],
  args: ['reservation_id', 'user'],
  replies: {
    reservation: reply({ ...position, payments: text }),
    place: reply({ ...position, isWaiting: flag }),
    none: () => ({}),
    not_found: () => ({}),
    rebuilding,
  },
});
export type ReadPromiseOutcome = OutcomeOf<typeof readPromiseScript>;
