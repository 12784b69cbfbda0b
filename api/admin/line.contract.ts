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
      'why nobody is promoted: `head_wants_more` = the first one wants more than is free, ' +
        'those behind him are served after 30 s; `nobody_there` = the campaign asks for presence and nobody was seen lately; ' +
        '`handing_over` = nothing is in the way, it happens now',
    ),
  head: z.array(
    z.object({
      position: z.int().nullable().describe('null = he stepped back, since he was not seen lately'),
      user_id: z.string(),
      qty: z.int(),
      since: z.iso.datetime().describe('when he joined, by the clock of the API that took him'),
    }),
  ),
});

/** The line as operators see it. */
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
