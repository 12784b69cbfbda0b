import { z } from 'zod';
import { note } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const reservation_id = z.string().min(1).max(64, 'is not a valid reservation id');

export const confirmBody = z.strictObject({ reservation_id, payment_ref: note.optional() });
export const releaseBody = z.strictObject({ reservation_id, reason: note.optional() });
export const refundBody = z.strictObject({ reservation_id });

const COMMON = [
  'invalid_request',
  'invalid_json',
  'unsupported_media_type',
  'body_too_large',
  'unauthorized',
  'forbidden',
  'reservation_not_found',
  'temporarily_unavailable',
] as const;

export const confirmContract = {
  method: 'post',
  path: '/flash-sale/confirm',
  summary: 'Confirm the payment of a reservation',
  description:
    'Idempotent: a retry gets the same response. A call with another `payment_ref` is a second charge: it is recorded, causes the ' +
    'event `dev.doorbuster.payment.duplicated.v1`, and its response names the first reference in `already_paid_by`.',
  tag: 'payment',
  caller: 'service',
  body: confirmBody,
  answers: {
    200: {
      description: 'Redeemed.',
      data: z.object({
        reservation_id: z.uuid(),
        status: z.literal('redeemed'),
        order_id: z.string(),
        already_paid_by: z
          .string()
          .optional()
          .describe('the first `payment_ref`, if this is another one; refund one of them'),
        reacquired: z
          .literal(true)
          .optional()
          .describe('the reservation had ended, and a free unit was reserved again'),
      }),
    },
  },
  errors: [...COMMON, 'reservation_released', 'reservation_refunded', 'reservation_voided'],
} satisfies RouteContract;

export const releaseContract = {
  method: 'post',
  path: '/flash-sale/release',
  summary: 'Release a reservation',
  description: 'For the payment service, or for the holder with their ticket. Idempotent; the unit is returned once.',
  tag: 'payment',
  caller: 'service or ticket',
  body: releaseBody.strip(),
  answers: {
    200: {
      description: 'Released, or already expired.',
      data: z.object({ reservation_id: z.uuid(), released: z.literal(true), status: z.enum(['released', 'expired']) }),
    },
  },
  errors: [...COMMON, 'ticket_invalid', 'reservation_redeemed', 'reservation_refunded', 'reservation_voided'],
} satisfies RouteContract;

export const refundContract = {
  method: 'post',
  path: '/flash-sale/refund',
  summary: 'Refund a redeemed reservation',
  description: 'The campaign’s `refund_policy` decides whether the unit is returned or burned. Idempotent.',
  tag: 'payment',
  caller: 'service',
  body: refundBody,
  answers: {
    200: {
      description: 'Refunded.',
      data: z.object({ reservation_id: z.uuid(), status: z.literal('refunded'), returned_to_stock: z.boolean() }),
    },
  },
  errors: [...COMMON, 'reservation_not_redeemed'],
} satisfies RouteContract;
