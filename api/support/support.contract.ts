import { z } from 'zod';
import { REDEMPTION_STATUSES } from '../../shared/domain/reservation.js';
import { externalId, isoTime, note, reservationId } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

/** Contracts of the calls that find a user, an order or a payment, and help them. */

const time = z.iso.datetime();

export const searchQuery = z.object({
  user_id: externalId.optional(),
  order_id: externalId.optional(),
  payment_ref: note.min(1, 'must not be empty').optional(),
  reservation_id: reservationId.optional(),
  code: z.string().min(1, 'must not be empty').max(128).optional().describe('as it was typed'),
  product_id: externalId.optional().describe('product id or campaign id'),
  status: z.enum(REDEMPTION_STATUSES).optional(),
  from: isoTime.optional().describe('reserved at this time or later'),
  to: isoTime.optional().describe('reserved before this time'),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.uuid('must be the `next_cursor` of the previous page').optional(),
});
export type SearchQuery = z.infer<typeof searchQuery>;

export const redemptionData = z
  .object({
    redemption_id: z.uuid().describe('the reservation id'),
    product_id: z.string(),
    campaign_name: z.string(),
    user_id: z.string(),
    order_id: z.string(),
    qty: z.int(),
    status: z.enum(REDEMPTION_STATUSES),
    burned: z.boolean(),
    waited: z.boolean().describe('it was promoted from the line'),
    reserved_at: time,
    pay_before: time.nullable().describe('null = nothing is to be paid'),
    redeemed_at: time.nullable(),
    released_at: time.nullable(),
    refunded_at: time.nullable(),
    reason: z.string().nullable(),
    payment_ref: z.string().nullable(),
    code: z.string().nullable(),
    metadata: z
      .record(z.string(), z.string())
      .optional()
      .describe('as sent with the claim; missing = none, or not written yet'),
    released_qty: z.int().optional().describe('units that were given back before the payment, while it kept `qty`'),
    refunded_qty: z.int().optional().describe('units that were refunded, while it kept `qty`'),
    burned_qty: z.int().optional().describe('those of `refunded_qty` that are not sold again'),
    reduced_at: time.optional().describe('when it last gave back units'),
    written: z
      .boolean()
      .describe(
        'false = decided, but not in Postgres yet: `reserved_at` is when it was requested, and later fields are missing',
      ),
  })
  .meta({ id: 'UserRedemption' });
export type RedemptionData = z.input<typeof redemptionData>;

export const placeData = z
  .object({
    product_id: z.string(),
    campaign_name: z.string(),
    user_id: z.string(),
    line_no: z.int().nullable().describe('number that the place got when it was taken; null = not written yet'),
    qty: z.int().nullable(),
    status: z.enum(['waiting', 'promoted', 'left', 'closed']),
    position: z.int().nullable().describe('position now, from 1; null = the user does not wait'),
    joined_at: time.nullable(),
    ended_at: time.nullable(),
  })
  .meta({ id: 'UserPlace' });
export type PlaceData = z.input<typeof placeData>;

const complete = z
  .boolean()
  .describe(
    'false = what is not in Postgres yet may be missing: Redis was unavailable, more than 200 campaigns sell, or the user has several such units',
  );

export const searchContract = {
  method: 'get',
  operationId: 'findRedemptions',
  path: '/admin/redemptions',
  summary: 'Find redemptions of all campaigns',
  description:
    'Newest first. At least one field is needed. With `product_id`, `status`, `from` and `to` alone a page reads at most 20,000 ' +
    'rows, so it may have fewer rows than `limit` and still have a `next_cursor`. A promise of the last second is found by user, reservation, or an order id that was made here. ' +
    '`places` has the places in line of `user_id`, on the first page.',
  tag: 'admin',
  caller: 'admin',
  query: searchQuery,
  answers: {
    200: {
      description: 'A page of redemptions.',
      data: z.array(redemptionData),
      members: z.object({ places: z.array(placeData), complete, next_cursor: z.uuid().nullable() }),
    },
  },
  errors: ['unauthorized', 'forbidden', 'invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

/** What happened to a user; `operator`: an action of an operator that concerns them. */
export const TIMELINE_KINDS = [
  'attempt',
  'joined',
  'promoted',
  'left',
  'line_closed',
  'reserved',
  'redeemed',
  'paid_again',
  'released',
  'expired',
  'refunded',
  'reduced',
  'voided',
  'operator',
  'banned',
] as const;

const moment = z.object({
  at: time,
  kind: z.enum(TIMELINE_KINDS),
  product_id: z.string().nullable(),
  reservation_id: z.uuid().nullable(),
  detail: z.string().nullable().describe('outcome of an attempt, reason, payment reference or action'),
  by: z.string().nullable().describe('the operator or rule'),
});
export type Moment = z.input<typeof moment>;

export const personContract = {
  method: 'get',
  operationId: 'getUserTimeline',
  path: '/admin/users/:user_id/timeline',
  summary: 'What happened to a user, over all campaigns',
  description:
    'The latest 100 redemptions and places, and a timeline of at most 500 entries: attempts, places, promotions, payments, ends, ' +
    'actions of operators and bans. A user without any gets empty lists.',
  tag: 'admin',
  caller: 'admin',
  params: z.object({ user_id: externalId }),
  answers: {
    200: {
      description: 'The user.',
      data: z.object({
        user_id: z.string(),
        redemptions: z.array(redemptionData),
        places: z.array(placeData),
        timeline: z.array(moment).describe('newest first'),
        truncated: z.boolean().describe('true = the user has more than is shown'),
        complete,
      }),
    },
  },
  errors: ['unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'],
} satisfies RouteContract;

const serviceReservation = redemptionData
  .omit({ redemption_id: true, campaign_name: true, waited: true, code: true })
  .extend({ reservation_id: z.uuid() })
  .meta({ id: 'Reservation' });

const SERVICE_ERRORS = [
  'unauthorized',
  'forbidden',
  'invalid_request',
  'reservation_not_found',
  'temporarily_unavailable',
] as const;

export const reservationContract = {
  method: 'get',
  operationId: 'getReservation',
  path: '/flash-sale/reservations/:id',
  summary: 'Read a reservation',
  description:
    'For the backend of a shop, which checks what a browser sent. `status` is the decision in force, even if Postgres does not have it yet.',
  tag: 'payment',
  caller: 'service',
  params: z.object({ id: reservationId }),
  answers: { 200: { description: 'The reservation.', data: serviceReservation } },
  errors: SERVICE_ERRORS,
} satisfies RouteContract;

export const reservationsContract = {
  method: 'get',
  operationId: 'findReservations',
  path: '/flash-sale/reservations',
  summary: 'Read the reservations of an order',
  description:
    'Newest first, at most 50. An order id that the caller chose is found once its reservation is in Postgres, usually within a second; ' +
    'with `user_id` at once.',
  tag: 'payment',
  caller: 'service',
  query: z.object({ order_id: externalId, product_id: externalId.optional(), user_id: externalId.optional() }),
  answers: {
    200: { description: 'The reservations; empty if the order has none.', data: z.array(serviceReservation) },
  },
  errors: [...SERVICE_ERRORS, 'campaign_not_found'],
} satisfies RouteContract;

export const actionBody = z.strictObject({ reason: note.optional().describe('for the audit log') });
export const partBody = actionBody.extend({
  keep: z
    .int()
    .min(0)
    .max(1_000_000)
    .optional()
    .describe(
      'number of units that the reservation keeps; the others are given back. 0 or missing = none, and it ends',
    ),
});
export const removalBody = z.strictObject({ user_id: externalId, reason: note.optional() });

const ofReservation = {
  tag: 'admin',
  caller: 'admin',
  method: 'post',
  params: z.object({ id: reservationId }),
} as const;
const ACTION_ERRORS = [...SERVICE_ERRORS, 'invalid_json', 'unsupported_media_type', 'body_too_large'] as const;

export const releaseAction = {
  ...ofReservation,
  operationId: 'releaseForUser',
  path: '/admin/reservations/:id/release',
  summary: 'Release a reservation for a user',
  description:
    'The unit goes to the first user in line, or is free. Idempotent, and audited with the operator and the reason. With `keep` the ' +
    'reservation keeps that many of its units.',
  body: partBody,
  answers: {
    200: {
      description: 'Released, or already expired. With `keep`: the reservation as it is now.',
      data: z.union([
        z.object({ reservation_id: z.uuid(), status: z.enum(['released', 'expired']) }),
        z.object({
          reservation_id: z.uuid(),
          status: z.literal('reserved'),
          qty: z.int().describe('units that the reservation has'),
          released_qty: z.int().describe('units that were released until now'),
        }),
      ]),
    },
  },
  errors: [
    ...ACTION_ERRORS,
    'reservation_released',
    'reservation_redeemed',
    'reservation_refunded',
    'reservation_voided',
  ],
} satisfies RouteContract;

export const refundAction = {
  ...ofReservation,
  operationId: 'refundForUser',
  path: '/admin/reservations/:id/refund',
  summary: 'Refund a redeemed reservation for a user',
  description:
    'The campaign’s `refund_policy` decides whether the unit is returned or burned. The money is returned by the payment provider, ' +
    'not by this call. Idempotent, and audited. With `keep` the reservation keeps that many of its units.',
  body: partBody,
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
      ]),
    },
  },
  errors: [...ACTION_ERRORS, 'reservation_not_redeemed', 'reservation_refunded'],
} satisfies RouteContract;

export const resendAction = {
  ...ofReservation,
  operationId: 'resendEvents',
  path: '/admin/reservations/:id/resend',
  summary: 'Send the events of a reservation to the webhooks again',
  description:
    'Each enabled endpoint gets the events that it received before, with their ids, so that a receiver ignores those that it has. ' +
    'Events are stored for seven days.',
  body: actionBody,
  answers: {
    200: {
      description: 'Scheduled.',
      data: z.object({ reservation_id: z.uuid(), events: z.int(), endpoints: z.int() }),
    },
  },
  errors: [...ACTION_ERRORS, 'event_not_found'],
} satisfies RouteContract;

export const removeAction = {
  method: 'post',
  operationId: 'removeFromLine',
  path: '/admin/campaigns/:id/line/remove',
  summary: 'Remove a user from the line',
  description:
    'The users behind move up. The user may check out again, and then goes to the end. Idempotent, and audited.',
  tag: 'admin',
  caller: 'admin',
  params: z.object({ id: externalId.describe('campaign id or product id') }),
  body: removalBody,
  answers: { 200: { description: 'The user has no place any more.', data: z.object({ status: z.literal('left') }) } },
  errors: [
    'unauthorized',
    'forbidden',
    'invalid_request',
    'invalid_json',
    'unsupported_media_type',
    'body_too_large',
    'campaign_not_found',
    'not_waiting',
    'temporarily_unavailable',
  ],
} satisfies RouteContract;
