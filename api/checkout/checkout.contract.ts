import { z } from 'zod';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import { CLAIM_REFUSALS, durability, PLACE_ANSWER, PRODUCT_REFUSALS } from '../claim/claim.contract.js';
import { attributes, challengeSolution, externalId } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const MAX_QTY = 1_000_000;
const MAX_TOKEN = 512;
const MAX_UNIX_SECONDS = 99_999_999_999;

export const checkoutBody = z.object({
  product_id: externalId,
  user_id: externalId,
  qty: z.int('must be a whole number').min(1, 'must be at least 1').max(MAX_QTY, 'is more than any campaign allows'),
  device_fp: externalId.optional(),
  attestation: z.string().max(MAX_TOKEN, 'is not a token of ours').optional(),
  expires_at: z.int('must be Unix seconds').min(0).max(MAX_UNIX_SECONDS).optional(),
  idempotency_key: z.string().optional(),
  attributes: attributes
    .optional()
    .describe('of the user, for the campaign’s audience; `account_created_at` is a signal to the risk rules'),
  challenge_solution: challengeSolution.optional(),
});
export type CheckoutBody = z.infer<typeof checkoutBody>;

/**
 * Whether a body has every field right. The same rules as `checkoutBody` written flat, for the one route on which a schema
 * is a tenth of the request; a body that it does not take goes to the schema, which says what is wrong, or takes it after
 * all. A test holds the two together.
 */
export function isPlainCheckout(body: unknown): body is CheckoutBody {
  if (typeof body !== 'object' || body === null) return false;
  const { product_id, user_id, qty, device_fp, attestation, expires_at, idempotency_key } = body as CheckoutBody;
  const { attributes: given, challenge_solution } = body as CheckoutBody;
  return (
    isExternalId(product_id) &&
    isExternalId(user_id) &&
    Number.isSafeInteger(qty) &&
    qty >= 1 &&
    qty <= MAX_QTY &&
    (device_fp === undefined || isExternalId(device_fp)) &&
    (attestation === undefined || (typeof attestation === 'string' && attestation.length <= MAX_TOKEN)) &&
    (expires_at === undefined ||
      (Number.isSafeInteger(expires_at) && expires_at >= 0 && expires_at <= MAX_UNIX_SECONDS)) &&
    (idempotency_key === undefined || typeof idempotency_key === 'string') &&
    // Rare, and not flat: the schema's.
    given === undefined &&
    challenge_solution === undefined
  );
}

const isExternalId = (value: unknown) => typeof value === 'string' && EXTERNAL_ID_PATTERN.test(value);

export const completedData = z.object({
  status: z.literal('completed'),
  order_id: z.string(),
  reservation_id: z.uuid(),
  pay_before: z.iso.datetime().nullable().describe('null = nothing is to be paid'),
  ticket: z.string().describe('proves this user and campaign; send it as X-Ticket'),
  durability,
  code: z.string().nullable().optional().describe('of campaigns that hand codes out; null = ask queue-status for it'),
});
export type CompletedData = z.input<typeof completedData>;

export const checkoutContract = {
  method: 'post',
  path: '/flash-sale/checkout',
  summary: 'Take a unit, or a place in line',
  description:
    'The idempotency key is required, in the body or in the `Idempotency-Key` header (8–255 characters of `A-Za-z0-9._~:-`). ' +
    'A repeated request with the key in the header gets its first status and data with `Idempotent-Replayed: true`; with the ' +
    'key in the body 409 `duplicate_request` with `original_status` and the first `data`.',
  tag: 'flash sale',
  caller: 'shopper',
  guards: ['network_ban'],
  headers: z.object({
    'idempotency-key': z.string().optional(),
    'x-device-fingerprint': z.string().optional().describe('used when the body has no device_fp'),
  }),
  body: checkoutBody,
  answers: {
    200: {
      description: 'A unit is yours; pay before `pay_before`.',
      data: completedData,
      optionalHeaders: ['RateLimit', 'RateLimit-Policy', 'Idempotent-Replayed'],
    },
    202: PLACE_ANSWER,
  },
  errors: [...CLAIM_REFUSALS, ...PRODUCT_REFUSALS, 'unauthorized', 'forbidden', 'challenge_required'],
} satisfies RouteContract;
