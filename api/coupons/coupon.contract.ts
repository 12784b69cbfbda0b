import { z } from 'zod';
import { CAMPAIGN_TYPES } from '../../shared/domain/campaign.js';
import { MAX_TYPED_CHARACTERS } from '../../shared/domain/codes.js';
import { MAX_CODES } from '../../shared/domain/stacking.js';
import { CLAIM_REFUSALS, CODE_REFUSALS, durability, PLACE_ANSWER } from '../claim/claim.contract.js';
import { attributes, cart, challengeSolution, externalId } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const typedCode = z
  .string()
  .min(1, 'must not be empty')
  .max(MAX_TYPED_CHARACTERS, `must have at most ${MAX_TYPED_CHARACTERS} characters`)
  .describe('matched without regard to case, spaces and hyphens');

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
    if (codes && codes.length > 1 && given === undefined) refuse('cart', 'is needed to combine several codes');
  });

export const redeemBody = z.object({
  code: typedCode,
  user_id: externalId,
  order_id: externalId,
  attributes: attributes.default({}),
  cart: cart.optional(),
  token: z.string().max(512).optional().describe('one-time token, for campaigns with require_token'),
  idempotency_key: z.string().optional().describe('or in the header Idempotency-Key'),
  device_fp: externalId.optional(),
  attestation: z.string().max(512).optional(),
  expires_at: z.int().min(0).optional().describe('Unix seconds, of the attestation'),
  challenge_solution: challengeSolution.optional(),
});
export type RedeemBody = z.infer<typeof redeemBody>;

export const tokenQuery = z.object({ code: typedCode, user_id: externalId });

const discount = z.union([
  z.object({ kind: z.literal('percent'), percent: z.number() }),
  z.object({ kind: z.literal('amount'), amount: z.int(), currency: z.string() }),
  z.object({ kind: z.literal('free_shipping') }),
]);
const money = z.int().nullable().describe('minor units of the cart; null without a cart');

const campaign = z.object({ product_id: z.string(), name: z.string(), type: z.enum(CAMPAIGN_TYPES) });

export const validData = z.object({
  valid: z.boolean().describe('whether any of the codes can be used'),
  code: z.string().optional(),
  campaign: campaign.optional(),
  discount: discount.nullable().optional(),
  discount_amount: money,
  total: money,
  free_shipping: z.boolean().optional(),
  remaining_hint: z.enum(['plenty', 'few', 'none']).optional().describe('none: there would be a place in the line'),
  ends_at: z.iso.datetime().nullable().optional(),
  ends_at_local: z.string().nullable().optional(),
  time_zone: z.string().optional(),
  applied: z
    .array(z.object({ code: z.string(), campaign, discount, amount: z.int() }))
    .optional()
    .describe('with several codes: those that combine, in the order in which they are applied'),
  left_out: z
    .array(
      z.object({ code: z.string(), reason: z.string(), detail: z.string(), conflicts_with: z.string().nullable() }),
    )
    .optional()
    .describe('with several codes: those that do not, and why'),
});
export type ValidData = z.input<typeof validData>;

export const redeemedData = z.object({
  status: z.enum(['redeemed', 'reserved']),
  reservation_id: z.string(),
  order_id: z.string(),
  code: z.string(),
  discount: discount.nullable(),
  discount_amount: money,
  total: money,
  pay_before: z.iso.datetime().nullable(),
  ticket: z.string(),
  durability,
});
export type RedeemedData = z.input<typeof redeemedData>;

export const tokenData = z.object({ token: z.string(), expires_at: z.iso.datetime() });

const coupons = { tag: 'coupons', caller: 'shopper' } as const;

/** What a caller may meet before a code is found. */
const SHOPPER_REFUSALS = ['invalid_request', 'unauthorized', 'forbidden', 'temporarily_unavailable'] as const;
/** Codes of refusals that say no more than that a code is not known. */
const UNKNOWN_CODE_REFUSALS = ['code_not_found', 'code_not_usable'] as const;

/** Why a code that exists cannot be used now. */
const VALIDATION_REFUSALS = [
  'code_not_found',
  'audience_mismatch',
  'already_redeemed',
  'campaign_not_started',
  'campaign_ended',
  'campaign_paused',
  'sold_out',
  'waiting_room_full',
] as const;
export type ValidationRefusal = (typeof VALIDATION_REFUSALS)[number];

export const validateContract = {
  ...coupons,
  method: 'post',
  path: '/coupons/validate',
  summary: 'What one code, or several, would give',
  description:
    'Reads only. One code: its campaign and discount, or the refusal that redeeming it would meet. Several: the best ' +
    'combination that their campaigns allow, and why the others are not in it.',
  guards: ['network_ban'],
  body: validateBody,
  answers: {
    200: { description: 'What can be used.', data: validData, optionalHeaders: ['RateLimit', 'RateLimit-Policy'] },
  },
  errors: [...SHOPPER_REFUSALS, ...UNKNOWN_CODE_REFUSALS, ...VALIDATION_REFUSALS, 'rate_limited', 'challenge_required'],
} satisfies RouteContract;

export const redeemContract = {
  ...coupons,
  method: 'post',
  path: '/coupons/redeem',
  summary: 'Use a code',
  description:
    'Needs an idempotency key, in the header or in the body, as checkout does. The same request means the same code, ' +
    'user_id and order_id. An order of a user takes a code only if the campaigns of all codes on it allow that (`stacking`); it is ' +
    'free again when the other code is released, expired, refunded or voided. Device fields are optional; given, they are checked as in checkout.',
  guards: ['network_ban'],
  body: redeemBody,
  answers: {
    201: {
      description: 'It is used; pay before `pay_before` where that is given.',
      data: redeemedData,
      optionalHeaders: ['RateLimit', 'RateLimit-Policy', 'Idempotent-Replayed'],
    },
    202: PLACE_ANSWER,
  },
  errors: [...SHOPPER_REFUSALS, ...UNKNOWN_CODE_REFUSALS, ...CLAIM_REFUSALS, ...CODE_REFUSALS, 'challenge_required'],
} satisfies RouteContract;

export const oneTimeTokenContract = {
  ...coupons,
  method: 'get',
  path: '/coupons/token',
  summary: 'A one-time token for a code and a user',
  description: 'For campaigns with `require_token`. Lives five minutes, is used up by the first redemption.',
  guards: ['network_ban', 'coupon_token_quota'],
  query: tokenQuery,
  answers: {
    200: { description: 'Send it as `token`.', data: tokenData, headers: ['RateLimit', 'RateLimit-Policy'] },
  },
  errors: [...SHOPPER_REFUSALS, 'code_not_found'],
} satisfies RouteContract;
