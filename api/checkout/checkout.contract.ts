import { z } from 'zod';
import { CLAIM_ERROR_CODES, durability, PLACE_ANSWER, PRODUCT_REFUSALS } from '../claim/claim.contract.js';
import { REQUIREMENT_CODES } from '../guards/abuse/requirements.js';
import { attributes, challengeSolution, externalId, metadata, requestHeaders } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const MAX_QTY = 1_000_000;
const MAX_TOKEN = 512;
const MAX_UNIX_SECONDS = 99_999_999_999;

export const checkoutBody = z.object({
  product_id: externalId,
  user_id: externalId,
  qty: z.int('must be a whole number').min(1, 'must be at least 1').max(MAX_QTY, `must be at most ${MAX_QTY}`),
  device_fp: externalId.optional(),
  attestation: z.string().max(MAX_TOKEN, 'is not a valid device token').optional(),
  expires_at: z.int('must be Unix seconds').min(0).max(MAX_UNIX_SECONDS).optional(),
  idempotency_key: z.string().optional(),
  attributes: attributes
    .optional()
    .describe('attributes of the user for the campaign’s audience; the risk rules read `account_created_at`'),
  challenge_solution: challengeSolution.optional(),
  metadata: metadata.optional(),
});
export type CheckoutBody = z.infer<typeof checkoutBody>;

export const completedData = z
  .object({
    status: z.literal('completed'),
    order_id: z.string(),
    reservation_id: z.uuid(),
    pay_before: z.iso.datetime().nullable().describe('null = no payment is required'),
    ticket: z.string().describe('proof of this user and campaign; send it as `X-Ticket`'),
    durability,
    code: z
      .string()
      .nullable()
      .optional()
      .describe('only in campaigns that assign codes; null = read it from queue-status'),
    checkout_url: z.string().optional().describe('where to pay, if the campaign has a `checkout_url`'),
  })
  .meta({ id: 'CompletedCheckout' });
export type CompletedData = z.input<typeof completedData>;

export const checkoutContract = {
  operationId: 'checkout',
  method: 'post',
  path: '/flash-sale/checkout',
  summary: 'Claim a unit or a place in line',
  description:
    'The idempotency key is required, in the body or in the `Idempotency-Key` header (8–255 characters of `A-Za-z0-9._~:-`). ' +
    'A retry with the key in the header gets the first status and data with `Idempotent-Replayed: true`. A retry with the ' +
    'key in the body gets 409 `duplicate_request` with `original_status` and the first `data`.',
  tag: 'flash sale',
  caller: 'shopper',
  guards: ['network_ban'],
  headers: z.object(requestHeaders).pick({ 'idempotency-key': true, 'x-device-fingerprint': true }),
  body: checkoutBody,
  bodyExample: {
    product_id: 'flash-indomie-2026',
    user_id: 'user-4711',
    qty: 1,
    device_fp: '9f0c2c1e-6a53-4f0e-9c0e-8d1f5a3b7e21',
    attestation: 'a1.YuTSgOuE68-sTKU7E69Lx1NpR5KsTz83GgQUrT4R-Yw',
    expires_at: 1_795_236_412,
    idempotency_key: 'c0a8012e-7b1d-4f3a-9c55-2d6e8f0a1b3c',
  },
  answers: {
    200: {
      description: 'A unit is reserved for the user until `pay_before`, or redeemed if that is null.',
      data: completedData,
      optionalHeaders: ['RateLimit', 'RateLimit-Policy', 'Idempotent-Replayed'],
    },
    202: PLACE_ANSWER,
  },
  errors: [...CLAIM_ERROR_CODES, ...PRODUCT_REFUSALS, ...REQUIREMENT_CODES, 'unauthorized', 'forbidden'],
} satisfies RouteContract;
