import type { ReservationId, UserId } from '../../domain/ids.js';
import { LINE_REASONS } from '../../domain/reservation.js';
import { count, flag, oneOf, rebuilding, reply } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf } from '../../redis/script-contract.js';

/** Maximum number of users in a reply: enough for the operator's page, and about 0.1 ms of Redis. */
export const MAX_LINE_HEAD = 100;

const person = reply({
  user: (value) => value as UserId,
  qty: count,
  reservationId: (value) => value as ReservationId,
  away: flag,
});

export const lineHeadScript = defineScript({
  name: 'line_head',
  keys: ['campaign', 'people', 'line', 'presence', 'codes', 'epoch'],
  args: ['limit:int'],
  replies: {
    line: reply(
      {
        reason: oneOf(LINE_REASONS),
        queueSize: count,
        free: (value, at) => (value === '-1' ? null : count(value, at)),
      },
      (fields, from) => ({
        head: Array.from({ length: Math.ceil((fields.length - from) / person.names.length) }, (_, i) =>
          person(fields, from + i * person.names.length),
        ),
      }),
    ),
    not_found: () => ({}),
    rebuilding,
  },
});
export type LineHeadOutcome = OutcomeOf<typeof lineHeadScript>;
