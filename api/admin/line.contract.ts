import { z } from 'zod';
import { madeAtMs } from '../../shared/domain/ids.js';
import { LINE_REASONS } from '../../shared/domain/reservation.js';
import { type LineHeadOutcome, MAX_LINE_HEAD } from '../../shared/sale/scripts/line-head.js';

export const lineLimit = z.coerce.number().int().min(1).max(MAX_LINE_HEAD);

export const lineData = z.object({
  waiting: z.int(),
  free: z.int().nullable().describe('null = unlimited'),
  reason: z
    .enum(LINE_REASONS)
    .describe(
      'why no user is promoted: `head_wants_more` = the first user wants more units than are free, the users behind ' +
        'them are served after 30 s; `nobody_there` = the campaign requires presence and no user was seen recently; ' +
        '`handing_over` = nothing prevents it, the promotion is in progress',
    ),
  head: z.array(
    z.object({
      position: z.int().nullable().describe('null = the user stepped back because they were not seen recently'),
      user_id: z.string(),
      qty: z.int(),
      since: z.iso.datetime().describe('when the user joined, by the clock of the API process'),
    }),
  ),
});

/** Returns the line in the form of the admin API. */
export function lineView(line: Extract<LineHeadOutcome, { kind: 'line' }>): z.input<typeof lineData> {
  const { queueSize, free, reason, head } = line;
  return {
    waiting: queueSize,
    free,
    reason,
    head: head.map(({ user, qty, reservationId, away }, i) => ({
      position: away ? null : i + 1,
      user_id: user,
      qty,
      since: new Date(madeAtMs(reservationId)).toISOString(),
    })),
  };
}
