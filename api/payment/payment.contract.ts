import { z } from 'zod';
import { note } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const reservation_id = z.string().min(1).max(64, 'is not a reservation id of ours');

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
  summary: 'The payment arrived',
  description:
    'Repeatable: the same response every time. A repetition with another `payment_ref` is a second charge: it is kept, makes the ' +
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
          .describe('the first `payment_ref`, when this is another one: refund one of them'),
        reacquired: z.literal(true).optional().describe('it had ended, and a free unit was taken again'),
      }),
    },
  },
  errors: [...COMMON, 'reservation_released', 'reservation_refunded', 'reservation_voided'],
} satisfies RouteContract;

export const releaseContract = {
  method: 'post',
  path: '/flash-sale/release',
  summary: 'The unit is given up',
  description: 'By the payment service, or by the holder with his ticket. Repeatable; the unit is given back once.',
  tag: 'payment',
  caller: 'service or ticket',
  body: releaseBody.strip(),
  answers: {
    200: {
      description: 'Released, or found expired.',
      data: z.object({ reservation_id: z.uuid(), released: z.literal(true), status: z.enum(['released', 'expired']) }),
    },
  },
  errors: [...COMMON, 'ticket_invalid', 'reservation_redeemed', 'reservation_refunded', 'reservation_voided'],
} satisfies RouteContract;

export const refundContract = {
  method: 'post',
  path: '/flash-sale/refund',
  summary: 'The money went back',
  description: 'The unit returns or is burned by the campaign’s `refund_policy`. Repeatable; done once.',
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
