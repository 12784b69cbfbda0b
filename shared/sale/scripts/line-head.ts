import type { ReservationId, UserId } from '../../domain/ids.js';
import { LINE_REASONS } from '../../domain/reservation.js';
import { count, flag, oneOf, rebuilding, text } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf } from '../../redis/script-contract.js';

/** Maximum number of users in a reply: enough for the operator's page, and about 0.1 ms of Redis. */
export const MAX_LINE_HEAD = 100;
const HEAD_FIELDS = 3;
const PERSON_FIELDS = 4;

export const lineHeadScript = defineScript({
  name: 'line_head',
  keys: ['campaign', 'people', 'line', 'presence', 'codes', 'epoch'],
  args: ['limit:int'],
  replies: {
    line: (f) => ({
      reason: oneOf(f, 0, LINE_REASONS),
      queueSize: count(f, 1),
      free: count(f, 2) < 0 ? null : count(f, 2),
      head: Array.from({ length: Math.ceil((f.length - HEAD_FIELDS) / PERSON_FIELDS) }, (_, i) => {
        const at = HEAD_FIELDS + i * PERSON_FIELDS;
        return {
          user: text(f, at) as UserId,
          qty: count(f, at + 1),
          reservationId: text(f, at + 2) as ReservationId,
          away: flag(f, at + 3),
        };
      }),
    }),
    not_found: () => ({}),
    rebuilding,
  },
});
export type LineHeadOutcome = OutcomeOf<typeof lineHeadScript>;
