import { z } from 'zod';
import type { ErrorCode } from '../../shared/errors/catalogue.js';
import { CODES_BY_PRODUCT, CODES_OF_CLAIMS } from '../../shared/sale/scripts/claim-refusals.js';

const PLACE_TICKET =
  'absent if the user was already in line, and the caller has proved neither to be the user nor to use the device of the place';

export const durability = z.enum(['journaled', 'replicated', 'committed']);

/** A place in the line, which checkout and redeem return with 202. */
export const placeData = z
  .object({
    status: z.literal('queued'),
    position: z.int().min(1),
    queue_size: z.int(),
    estimated_wait_seconds: z.int().nullable().describe('null = unknown'),
    ticket: z.string().optional().describe(PLACE_TICKET),
    poll_after_seconds: z.int(),
  })
  .meta({ id: 'Place' });
export type PlaceData = z.input<typeof placeData>;

/** The 202 of checkout and redeem. */
export const PLACE_ANSWER = {
  description: 'The user has a place in line. `Location` is the URL of its queue-status.',
  data: placeData,
  headers: ['Location', 'Retry-After'],
  optionalHeaders: ['RateLimit', 'RateLimit-Policy', 'Idempotent-Replayed'],
} as const;

/** Error codes of every claim. */
export const CLAIM_ERROR_CODES = [
  ...CODES_OF_CLAIMS,
  'invalid_request',
  'duplicate_request',
  'campaign_not_started',
  'reservation_voided',
  'rate_limited',
  'temporarily_unavailable',
] as const;

/** Additional error codes of a claim by product. */
export const PRODUCT_REFUSALS = CODES_BY_PRODUCT;

/** Additional error codes of a claim by code. */
export const CODE_REFUSALS = ['not_combinable'] as const satisfies readonly ErrorCode[];

/** All error codes of claims. */
export type ClaimRefusal = (typeof CLAIM_ERROR_CODES | typeof PRODUCT_REFUSALS | typeof CODE_REFUSALS)[number];
