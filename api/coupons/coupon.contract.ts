import { z } from 'zod';
import { CAMPAIGN_TYPES } from '../../shared/domain/campaign.js';
import { MAX_TYPED_CHARACTERS } from '../../shared/domain/codes.js';
import { MAX_CODES } from '../../shared/domain/stacking.js';
import { attributes, cart, challengeSolution, externalId } from '../http/fields.js';

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
  durability: z.enum(['journaled', 'replicated', 'committed']),
});

export const placeData = z.object({
  status: z.literal('queued'),
  position: z.int(),
  queue_size: z.int(),
  estimated_wait_seconds: z.number().nullable(),
  ticket: z.string().optional().describe('absent as in checkout'),
  poll_after_seconds: z.number(),
});

export const tokenData = z.object({ token: z.string(), expires_at: z.iso.datetime() });
