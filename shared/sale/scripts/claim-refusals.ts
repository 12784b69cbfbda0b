import type { ErrorCode, ProblemExtras } from '../../errors/catalogue.js';

type Refusal = {
  code: ErrorCode;
  /** One sentence for the caller. */
  detail: string;
  extras?: ProblemExtras;
  /** Only claims of this kind are refused so. */
  only?: 'by product';
};

/**
 * Refusals of lua/reserve.lua that say no more than their kind: kind → what the caller gets. The contract of the
 * script, those of the routes and the response follow from this table. A refusal with data of its own is in reserve.ts
 * and api/claim/claim.ts.
 */
export const CLAIM_REFUSALS = {
  attestation_missing: {
    code: 'attestation_invalid',
    detail: 'This campaign requires `attestation` and `expires_at`.',
  },
  attestation_future: {
    code: 'attestation_invalid',
    detail: '`expires_at` is later than the expiry of any valid token.',
  },
  attestation_expired: { code: 'attestation_expired', detail: 'The device token has expired.' },
  not_found: { code: 'campaign_not_found', detail: 'No campaign sells this product.' },
  audience_mismatch: { code: 'audience_mismatch', detail: 'The user is not in the audience of this campaign.' },
  limit_reached: { code: 'already_redeemed', detail: 'The user has reached the limit of this campaign.' },
  code_used: { code: 'already_redeemed', detail: 'The code has been redeemed.' },
  code_needed: {
    code: 'code_required',
    detail: 'Each unit of this campaign needs a code. Use /coupons/redeem.',
    only: 'by product',
  },
  token_missing: { code: 'token_invalid', detail: 'This campaign requires a one-time token.' },
  token_expired: { code: 'token_invalid', detail: 'The one-time token has expired.' },
  token_used: { code: 'token_invalid', detail: 'The one-time token has already been used.' },
  sold_out: { code: 'sold_out', detail: 'Not enough units are free, and there is no line to join.' },
  line_full: { code: 'waiting_room_full', detail: 'The waiting room has reached its limit.' },
  ended: { code: 'campaign_ended', detail: 'The sale has ended.' },
  key_reused: { code: 'idempotency_key_reused', detail: 'This key was used for a different request.' },
  // The end of a pause is unknown; clients retry at this interval.
  paused: {
    code: 'campaign_paused',
    detail: 'The sale is paused. Places and reservations are kept.',
    extras: { retryAfterSeconds: 5 },
  },
} as const satisfies Record<string, Refusal>;

type Row = (typeof CLAIM_REFUSALS)[keyof typeof CLAIM_REFUSALS];
type ByProduct = Extract<Row, { only: 'by product' }>;

const codesOf = (only: Refusal['only']) =>
  Object.values<Refusal>(CLAIM_REFUSALS)
    .filter((row) => row.only === only)
    .map(({ code }) => code);

/** Codes of these refusals: of every claim, and of claims by product alone. */
export const CODES_OF_CLAIMS = codesOf(undefined) as Exclude<Row, ByProduct>['code'][];
export const CODES_BY_PRODUCT = codesOf('by product') as ByProduct['code'][];

/** The decisions, for the contract of the script. */
export const REFUSED = Object.fromEntries(Object.keys(CLAIM_REFUSALS).map((kind) => [kind, () => ({})])) as {
  [Kind in keyof typeof CLAIM_REFUSALS]: () => Record<never, never>;
};
