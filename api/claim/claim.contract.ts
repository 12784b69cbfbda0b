import { z } from 'zod';
import type { ErrorCode } from '../../shared/errors/catalogue.js';
import { CODES_BY_PRODUCT, CODES_OF_CLAIMS } from '../../shared/sale/scripts/claim-refusals.js';

const PLACE_TICKET =
  'absent when the user was in line already and the caller has neither proved to be the user nor to use the device that took the place';

export const durability = z.enum(['journaled', 'replicated', 'committed']);

/** A place in the line, as checkout and redeem return it with 202. */
export const placeData = z.object({
  status: z.literal('queued'),
  position: z.int().min(1),
  queue_size: z.int(),
  estimated_wait_seconds: z.int().nullable().describe('null = unknown'),
  ticket: z.string().optional().describe(PLACE_TICKET),
  poll_after_seconds: z.int(),
});
export type PlaceData = z.input<typeof placeData>;

/** The 202 of checkout and redeem. */
export const PLACE_ANSWER = {
  description: 'You are in line. `Location` is your queue-status.',
  data: placeData,
  headers: ['Location', 'Retry-After'],
  optionalHeaders: ['RateLimit', 'RateLimit-Policy', 'Idempotent-Replayed'],
} as const;

/** Codes with which any claim may be refused. */
export const CLAIM_REFUSALS = [
  ...CODES_OF_CLAIMS,
  'invalid_request',
  'duplicate_request',
  'campaign_not_started',
  'rate_limited',
  'temporarily_unavailable',
] as const;

/** Codes with which a claim by product may be refused beside them. */
export const PRODUCT_REFUSALS = CODES_BY_PRODUCT;

/** Codes with which a claim by code may be refused beside them. */
export const CODE_REFUSALS = ['not_combinable'] as const satisfies readonly ErrorCode[];

/** Every code with which a claim may be refused. */
export type ClaimRefusal = (typeof CLAIM_REFUSALS | typeof PRODUCT_REFUSALS | typeof CODE_REFUSALS)[number];
