import { z } from 'zod';
import { estimatedWaitSeconds } from '../domain/estimate.js';
import { POLL_MAX_SECONDS, POLL_MIN_SECONDS, pollAfterSeconds } from '../domain/polling.js';
import { STANDINGS, type Standing } from '../domain/reservation.js';
import { timeOrNull } from '../domain/time.js';

/**
 * The fields of queue-status and `welcome`, with their descriptions for callers. Only the holder gets the optional
 * fields.
 */
export const standingFields = {
  status: z.enum(STANDINGS),
  position: z.int().nullable().describe('from 1; null = not in line'),
  position_error: z
    .int()
    .optional()
    .describe(
      'by how many places `position` may be wrong, behind the first 1,000 of a campaign with buckets; missing = it is exact',
    ),
  queue_size: z.int(),
  estimated_wait_seconds: z.int().nullable().describe('at the pace of this line in the last minutes; null = unknown'),
  poll_after_seconds: z.int(),
  reservation_id: z.uuid().nullable().optional(),
  order_id: z.string().nullable().optional(),
  pay_before: z.iso.datetime().nullable().optional(),
  code: z.string().nullable().optional().describe('the code, if the campaign hands out codes'),
  checkout_url: z.string().optional().describe('where to pay until `pay_before`, if the campaign has a `checkout_url`'),
} as const;

const standing = z.object(standingFields);
export type StandingData = z.input<typeof standing>;

export type StandingFacts = {
  status: Standing;
  position: number;
  /** By how many places the position may be wrong; missing = it is exact. */
  positionError?: number;
  queueSize: number;
  reservationId: string;
  orderId: string;
  dueMs: number;
  /** Milliseconds between two promotions; null = unknown. */
  paceMs: number | null;
  /** How often a waiting user must be seen, in ms; 0 = presence is not required. */
  presenceMs: number;
};

/**
 * Makes the fields of queue-status and of the `welcome` frame.
 * @param holder whether the caller has proved to be this shopper
 */
export function standingData(facts: StandingFacts, holder: boolean): StandingData {
  const waiting = facts.status === 'queued';
  const unpaid = facts.status === 'promoted' || facts.status === 'completed';
  return {
    status: facts.status,
    position: waiting ? facts.position : null,
    ...(waiting && facts.positionError ? { position_error: facts.positionError } : {}),
    queue_size: facts.queueSize,
    estimated_wait_seconds: waiting ? estimatedWaitSeconds(facts.position, facts.paceMs) : null,
    poll_after_seconds: waiting
      ? pollAfterSeconds(facts.position, facts.presenceMs)
      : unpaid
        ? POLL_MIN_SECONDS
        : POLL_MAX_SECONDS,
    ...(holder
      ? {
          reservation_id: facts.reservationId || null,
          order_id: facts.orderId || null,
          pay_before: timeOrNull(facts.dueMs),
        }
      : {}),
  };
}
