import { z } from 'zod';
import { attributes, challengeSolution, externalId } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

export const checkoutBody = z.object({
  product_id: externalId,
  user_id: externalId,
  qty: z.int('must be a whole number').min(1, 'must be at least 1').max(1_000_000, 'is more than any campaign allows'),
  device_fp: externalId.optional(),
  attestation: z.string().max(512, 'is not a token of ours').optional(),
  expires_at: z.int('must be Unix seconds').min(0).max(99_999_999_999).optional(),
  idempotency_key: z.string().optional(),
  attributes: attributes.optional().describe('of the user; `account_created_at` is a signal to the risk rules'),
  challenge_solution: challengeSolution.optional(),
});
export type CheckoutBody = z.infer<typeof checkoutBody>;

export const completedData = z.object({
  status: z.literal('completed'),
  order_id: z.string(),
  reservation_id: z.uuid(),
  pay_before: z.iso.datetime().nullable().describe('null = nothing is to be paid'),
  ticket: z.string().describe('proves this user and campaign; send it as X-Ticket'),
  durability: z.enum(['journaled', 'committed']),
});

export const queuedData = z.object({
  status: z.literal('queued'),
  position: z.int().min(1),
  queue_size: z.int(),
  estimated_wait_seconds: z.int().nullable().describe('null = unknown'),
  ticket: z.string(),
  poll_after_seconds: z.int(),
});

export const checkoutContract: RouteContract = {
  method: 'post',
  path: '/flash-sale/checkout',
  summary: 'Take a unit, or a place in line',
  description:
    'The idempotency key is required, in the body or in the `Idempotency-Key` header (8–255 characters of `A-Za-z0-9._~:-`). ' +
    'A repeated request with the key in the header gets its first status and data with `Idempotent-Replayed: true`; with the ' +
    'key in the body 409 `duplicate_request` with `original_status` and the first `data`.',
  tag: 'flash sale',
  caller: 'shopper',
  headers: z.object({
    'idempotency-key': z.string().optional(),
    'x-device-fingerprint': z.string().optional().describe('used when the body has no device_fp'),
  }),
  body: checkoutBody,
  answers: {
    200: { description: 'A unit is yours; pay before `pay_before`.', data: completedData },
    202: { description: 'You are in line. `Location` is your queue-status.', data: queuedData },
  },
  errors: [
    'invalid_request',
    'invalid_json',
    'unsupported_media_type',
    'body_too_large',
    'attestation_invalid',
    'attestation_expired',
    'unauthorized',
    'forbidden',
    'blocked',
    'challenge_required',
    'campaign_not_found',
    'already_redeemed',
    'duplicate_request',
    'campaign_not_started',
    'sold_out',
    'waiting_room_full',
    'campaign_ended',
    'idempotency_key_reused',
    'rate_limited',
    'campaign_paused',
    'temporarily_unavailable',
  ],
};
