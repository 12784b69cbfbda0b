import { z } from 'zod';
import { CAMPAIGN_TYPES } from '../../shared/domain/campaign.js';
import { MAX_TYPED_CHARACTERS } from '../../shared/domain/codes.js';
import { MAX_CODES } from '../../shared/domain/stacking.js';
import { CLAIM_ERROR_CODES, CODE_REFUSALS, durability, PLACE_ANSWER } from '../claim/claim.contract.js';
import { REQUIREMENT_CODES } from '../guards/abuse/requirements.js';
import { attributes, cart, challengeSolution, externalId, metadata, requestHeaders } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const typedCode = z
  .string()
  .min(1, 'must not be empty')
  .max(MAX_TYPED_CHARACTERS, `must have at most ${MAX_TYPED_CHARACTERS} characters`)
  .describe('case, spaces and hyphens are ignored');

export const validateBody = z
  .object({
    code: typedCode.optional(),
    codes: z.array(typedCode).min(1).max(MAX_CODES, `must have at most ${MAX_CODES} codes`).optional(),
    user_id: externalId,
    attributes: attributes.default({}),
    cart: cart.optional(),
    challenge_solution: challengeSolution.optional(),
  })
  .superRefine(({ code, codes, cart: given }, context) => {
    const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message });
    if ((code === undefined) === (codes === undefined)) refuse('code', 'send either code or codes');
    if (codes && codes.length > 1 && given === undefined) refuse('cart', 'is required with several codes');
  });

export const redeemBody = z.object({
  code: typedCode,
  user_id: externalId,
  order_id: externalId,
  attributes: attributes.default({}),
  cart: cart.optional(),
  token: z.string().max(512).optional().describe('one-time token, for campaigns with `require_token`'),
  idempotency_key: z.string().optional().describe('alternatively in the header `Idempotency-Key`'),
  device_fp: externalId.optional(),
  attestation: z.string().max(512).optional(),
  expires_at: z.int().min(0).optional().describe('expiry of the attestation, Unix seconds'),
  challenge_solution: challengeSolution.optional(),
  metadata: metadata.optional(),
});
export type RedeemBody = z.infer<typeof redeemBody>;

export const tokenQuery = z.object({ code: typedCode, user_id: externalId });

const discount = z
  .union([
    z.object({ kind: z.literal('percent'), percent: z.number() }),
    z.object({ kind: z.literal('amount'), amount: z.int(), currency: z.string() }),
    z.object({ kind: z.literal('free_shipping') }),
  ])
  .meta({ id: 'Discount' });
const money = z.int().nullable().describe('minor units of the cart; null without a cart');

const campaign = z.object({ product_id: z.string(), name: z.string(), type: z.enum(CAMPAIGN_TYPES) });

export const validData = z.object({
  valid: z.boolean().describe('whether at least one of the codes can be used'),
  code: z.string().optional(),
  campaign: campaign.optional(),
  discount: discount.nullable().optional(),
  discount_amount: money,
  total: money,
  free_shipping: z.boolean().optional(),
  remaining_hint: z.enum(['plenty', 'few', 'none']).optional().describe('none: no unit is free, but the line is open'),
  ends_at: z.iso.datetime().nullable().optional(),
  ends_at_local: z.string().nullable().optional(),
  time_zone: z.string().optional(),
  applied: z
    .array(z.object({ code: z.string(), campaign, discount, amount: z.int() }))
    .optional()
    .describe('with several codes: those that combine, in the order of their application'),
  left_out: z
    .array(
      z.object({ code: z.string(), reason: z.string(), detail: z.string(), conflicts_with: z.string().nullable() }),
    )
    .optional()
    .describe('with several codes: those that cannot be used, with the reason'),
});
export type ValidData = z.input<typeof validData>;

export const redeemedData = z
  .object({
    status: z.enum(['redeemed', 'reserved']),
    reservation_id: z.uuid(),
    order_id: z.string(),
    code: z.string(),
    discount: discount.nullable(),
    discount_amount: money,
    total: money,
    pay_before: z.iso.datetime().nullable(),
    ticket: z.string(),
    durability,
  })
  .meta({ id: 'CompletedRedemption' });
export type RedeemedData = z.input<typeof redeemedData>;

export const tokenData = z.object({ token: z.string(), expires_at: z.iso.datetime() });

const coupons = { tag: 'coupons', caller: 'shopper' } as const;

/** Error codes of a request before its code is resolved. */
const SHOPPER_REFUSALS = ['invalid_request', 'unauthorized', 'forbidden', 'temporarily_unavailable'] as const;
/** Error codes for an unknown code. */
const UNKNOWN_CODE_REFUSALS = ['code_not_found', 'code_not_usable'] as const;

/** Error codes of a check: why the code cannot be used now. */
const VALIDATION_REFUSALS = [
  'code_not_found',
  'audience_mismatch',
  'already_redeemed',
  'checkout_required',
  'campaign_not_started',
  'campaign_ended',
  'campaign_paused',
  'sold_out',
  'waiting_room_full',
] as const;
export type ValidationRefusal = (typeof VALIDATION_REFUSALS)[number];

export const validateContract = {
  ...coupons,
  operationId: 'validateCoupons',
  method: 'post',
  path: '/coupons/validate',
  summary: 'Check one code or several',
  description:
    'Changes nothing. For one code it returns the campaign and the discount, or the refusal that redeeming it would get; device, ' +
    'one-time token and the risk of the caller are only looked at when it is redeemed. ' +
    'For several codes it returns the best combination that their campaigns allow, and why the others are left out.',
  guards: ['network_ban'],
  body: validateBody,
  bodyExample: { code: 'SAVE10', user_id: 'user-4711', cart: { subtotal: 250_000, currency: 'IDR' } },
  answers: {
    200: {
      description: 'The usable codes and their discount.',
      data: validData,
      optionalHeaders: ['RateLimit', 'RateLimit-Policy'],
    },
  },
  errors: [
    ...[...SHOPPER_REFUSALS, ...UNKNOWN_CODE_REFUSALS, ...VALIDATION_REFUSALS, ...REQUIREMENT_CODES],
    'rate_limited',
  ],
} satisfies RouteContract;

export const redeemContract = {
  ...coupons,
  operationId: 'redeemCoupon',
  method: 'post',
  path: '/coupons/redeem',
  summary: 'Redeem a code',
  description:
    'Requires an idempotency key in the header or in the body, as checkout does. A retry must have the same code, user_id ' +
    'and order_id. A code can be added to an order of a user only if the campaigns of all its codes allow it (`stacking`). A code ' +
    'that is released, expired, refunded or voided no longer counts. Device fields are optional; if sent, they are checked as in checkout.',
  guards: ['network_ban'],
  headers: z.object(requestHeaders).pick({ 'idempotency-key': true, 'x-device-fingerprint': true }),
  body: redeemBody,
  bodyExample: {
    code: 'SAVE10',
    user_id: 'user-4711',
    order_id: 'cart-4711',
    cart: { subtotal: 250_000, currency: 'IDR' },
    idempotency_key: 'c0a8012e-7b1d-4f3a-9c55-2d6e8f0a1b3c',
  },
  answers: {
    201: {
      description: 'The code is redeemed, or reserved until `pay_before` if that is not null.',
      data: redeemedData,
      optionalHeaders: ['RateLimit', 'RateLimit-Policy', 'Idempotent-Replayed'],
    },
    202: PLACE_ANSWER,
  },
  errors: [
    ...[...SHOPPER_REFUSALS, ...UNKNOWN_CODE_REFUSALS, ...CLAIM_ERROR_CODES, ...CODE_REFUSALS, ...REQUIREMENT_CODES],
    'checkout_required',
  ],
} satisfies RouteContract;

export const oneTimeTokenContract = {
  ...coupons,
  operationId: 'getCouponToken',
  method: 'get',
  path: '/coupons/token',
  summary: 'A one-time token for a code and a user',
  description: 'For campaigns with `require_token`. The token is valid for five minutes and for one redemption.',
  guards: ['network_ban', 'coupon_token_quota'],
  query: tokenQuery,
  answers: {
    200: {
      description: 'The token; send it as `token` with the redemption.',
      data: tokenData,
      headers: ['RateLimit', 'RateLimit-Policy'],
    },
  },
  errors: [...SHOPPER_REFUSALS, 'code_not_found'],
} satisfies RouteContract;
