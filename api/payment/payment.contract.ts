import { z } from 'zod';
import { externalId, note, reservationId } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

const reservation = {
  reservation_id: reservationId.optional(),
  order_id: externalId.optional().describe('names the reservations of an order instead; for services'),
  user_id: externalId.optional().describe('user of the reservations, if several have the `order_id`'),
  product_id: externalId.optional().describe('only the reservations of this product'),
};
/** Requires one name of the reservations. */
function namedOnce(
  { reservation_id, order_id }: { reservation_id?: string | undefined; order_id?: string | undefined },
  context: z.RefinementCtx,
): void {
  const [path, message] =
    order_id === undefined
      ? ['reservation_id', 'must be given, or order_id instead']
      : ['order_id', 'must not be given with reservation_id'];
  if ((reservation_id === undefined) === (order_id === undefined))
    context.addIssue({ code: 'custom', path: [path], message });
}

export const confirmBody = z.strictObject({ ...reservation, payment_ref: note.optional() }).superRefine(namedOnce);
/** Number of units that a reservation keeps. Absolute, so that a repetition changes nothing. */
const keep = z
  .int()
  .min(0)
  .max(1_000_000)
  .optional()
  .describe('number of units that the reservation keeps; the others are given back. 0 or missing = none, and it ends');
const releaseFields = { ...reservation, reason: note.optional(), keep };
export const releaseBody = z.strictObject(releaseFields).superRefine(namedOnce);
/** Of a holder, who names the reservation by its id. Other fields are ignored, as in every body of a shopper. */
export const holderReleaseBody = z.object({ reservation_id: reservationId, reason: note.optional(), keep });
export const extendBody = z.strictObject(reservation).superRefine(namedOnce);
export const refundBody = z.strictObject({ ...reservation, keep }).superRefine(namedOnce);

// Named, because some generators give both no name of their own within the alternatives of a response.
const decidedReservation = z.looseObject({ reservation_id: z.uuid(), status: z.string() }).meta({
  id: 'DecidedReservation',
  description: 'and what the call returns for one: `already_paid_by`, `reacquired`, `qty`, `pay_before`',
});
const ofOrder = z.object({ order_id: z.string(), reservations: z.array(decidedReservation) }).meta({
  id: 'DecidedOrder',
  description: 'the order has several reservations, each of which was decided by itself',
});

const COMMON = [
  'invalid_request',
  'invalid_json',
  'unsupported_media_type',
  'body_too_large',
  'unauthorized',
  'forbidden',
  'reservation_not_found',
  'order_ambiguous',
  'order_partly_decided',
  'temporarily_unavailable',
] as const;

export const confirmContract = {
  operationId: 'confirmReservation',
  method: 'post',
  path: '/flash-sale/confirm',
  summary: 'Confirm the payment of a reservation',
  description:
    'Idempotent: a retry gets the same response. A call with another `payment_ref` is a second charge: it is recorded, causes the ' +
    'event `dev.doorbuster.payment.duplicated.v1`, and its response names the first reference in `already_paid_by`. ' +
    'The reservation is named by `reservation_id`, or by `order_id`. ' +
    'Several reservations of an order are confirmed one by one: 409 `order_partly_decided` if some cannot be; a repetition completes it.',
  tag: 'payment',
  caller: 'service',
  body: confirmBody,
  bodyExample: { reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000001', payment_ref: 'pi_3Pq7cR2eZvKYlo2C1aJ9bT4x' },
  answers: {
    200: {
      description: 'Redeemed.',
      data: z.union([
        z.object({
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
          qty: z
            .int()
            .optional()
            .describe('units of the reservation, if some were given back before; deliver no more than these'),
        }),
        ofOrder,
      ]),
    },
  },
  errors: [...COMMON, 'reservation_released', 'reservation_refunded', 'reservation_voided'],
} satisfies RouteContract;

export const releaseContract = {
  operationId: 'releaseReservation',
  method: 'post',
  path: '/flash-sale/release',
  summary: 'Release a reservation',
  description:
    'For the payment service, or for the holder with their ticket. Idempotent; the unit is returned once. With `keep` the reservation ' +
    'keeps that many of its units, its deadline and its code. If it has no more than that, nothing changes. If it has ended, the response ' +
    'is 409 `reservation_released`.',
  tag: 'payment',
  caller: 'service or ticket',
  body: z.object(releaseFields).superRefine(namedOnce),
  bodyExample: { reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000001', reason: 'the order was cancelled' },
  answers: {
    200: {
      description: 'Released, or already expired. With `keep`: the reservation as it is now.',
      data: z.union([
        z.object({ reservation_id: z.uuid(), released: z.literal(true), status: z.enum(['released', 'expired']) }),
        z.object({
          reservation_id: z.uuid(),
          released: z.literal(false),
          status: z.literal('reserved'),
          qty: z.int().describe('units that the reservation has'),
          released_qty: z.int().describe('units that were released until now'),
        }),
        ofOrder,
      ]),
    },
  },
  errors: [
    ...COMMON,
    'ticket_invalid',
    'reservation_released',
    'reservation_redeemed',
    'reservation_refunded',
    'reservation_voided',
  ],
} satisfies RouteContract;

export const extendContract = {
  method: 'post',
  operationId: 'extendReservation',
  path: '/flash-sale/extend',
  summary: 'Extend the time to pay',
  description:
    'Once for a reservation, by `extend_seconds` of its campaign, while a payment is under way: before the deadline, and before the campaign ' +
    'is closed. A repetition is 409 `already_extended` with the new `pay_before`, so that a lost response is learned.',
  tag: 'payment',
  caller: 'service',
  body: extendBody,
  bodyExample: { reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000001' },
  answers: {
    200: {
      description: 'Extended.',
      data: z.union([
        z.object({ reservation_id: z.uuid(), status: z.literal('extended'), pay_before: z.iso.datetime() }),
        ofOrder,
      ]),
    },
  },
  errors: [
    ...COMMON,
    'extension_not_allowed',
    'already_extended',
    'reservation_released',
    'reservation_redeemed',
    'reservation_refunded',
    'reservation_voided',
  ],
} satisfies RouteContract;

export const refundContract = {
  operationId: 'refundReservation',
  method: 'post',
  path: '/flash-sale/refund',
  summary: 'Refund a redeemed reservation',
  description:
    'The campaign’s `refund_policy` decides whether the unit is returned or burned. Idempotent. With `keep` the reservation keeps that ' +
    'many of its units and stays redeemed. If it has no more than that, nothing changes. If all was refunded, the response is 409 ' +
    '`reservation_refunded`.',
  tag: 'payment',
  caller: 'service',
  body: refundBody,
  bodyExample: { reservation_id: '01a1fc6d-483b-7a4a-9e25-913b00000001' },
  answers: {
    200: {
      description: 'Refunded. With `keep`: the reservation as it is now.',
      data: z.union([
        z.object({ reservation_id: z.uuid(), status: z.literal('refunded'), returned_to_stock: z.boolean() }),
        z.object({
          reservation_id: z.uuid(),
          status: z.literal('redeemed'),
          returned_to_stock: z.boolean().describe('units were refunded, and all of them were returned'),
          qty: z.int().describe('units that the reservation has'),
          refunded_qty: z.int().describe('units that were refunded until now'),
        }),
        ofOrder,
      ]),
    },
  },
  errors: [...COMMON, 'reservation_not_redeemed', 'reservation_refunded'],
} satisfies RouteContract;
