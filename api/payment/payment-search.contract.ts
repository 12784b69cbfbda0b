import { z } from 'zod';
import { REDEMPTION_STATUSES } from '../../shared/domain/reservation.js';
import { NEEDS_ACTION, PAYMENT_OUTCOMES, type PaymentOutcome } from '../../shared/payments/payment-event.js';
import { externalId, isoTime, note, reservationId, storable } from '../http/fields.js';
import { BODY_REFUSALS, type RouteContract } from '../http/route.js';

const OUTCOMES = Object.keys(PAYMENT_OUTCOMES) as [PaymentOutcome, ...PaymentOutcome[]];

/** The index of event ids takes ids of some 2,700 bytes. */
const MAX_CURSOR = 4_096;
const time = z.iso.datetime();
const meanings = Object.entries(PAYMENT_OUTCOMES).map(([name, meaning]) => `\`${name}\`: ${meaning}`);

export const paymentEventsQuery = z.object({
  needs_action: z
    .enum(['true', 'false'])
    .default('false')
    .describe(
      `true: only the outcomes ${NEEDS_ACTION.map((name) => `\`${name}\``).join(', ')}, each payment once, and without ` +
        'those that were refunded since, that an operator has settled, or that are about no money',
    ),
  outcome: z.enum(OUTCOMES).optional(),
  provider: z
    .string()
    .regex(/^[a-z_-]{1,40}$/, 'must be a provider such as `stripe`')
    .optional(),
  product_id: externalId.optional().describe('product id or campaign id'),
  user_id: externalId.optional().describe('among the latest 200 reservations of this user'),
  order_id: externalId.optional(),
  reservation_id: reservationId.optional(),
  payment_ref: note.min(1, 'must not be empty').optional(),
  from: isoTime.optional().describe('received at this time or later'),
  to: isoTime.optional().describe('received before this time'),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z
    .string()
    .max(MAX_CURSOR)
    .regex(/^[A-Za-z0-9_-]+$/, 'must be the `next_cursor` of the previous page')
    .optional(),
});
export type PaymentEventsQuery = z.infer<typeof paymentEventsQuery>;

/** What a cursor contains: microseconds, provider, event id and reservation, in a form that Postgres takes. */
export const cursorParts = z.tuple([z.string().regex(/^\d{1,18}$/), storable, storable, z.uuid().nullable()]);

const paymentEventData = z
  .object({
    provider: z.string(),
    event_id: z.string().describe('id of the event at the provider'),
    kind: z.enum(['succeeded', 'failed', 'expired', 'refunded']),
    outcome: z.enum(OUTCOMES).describe(meanings.join('; ')),
    partial: z.boolean().describe('the event is about a part of the amount'),
    payment_ref: z.string().nullable(),
    amount: z.int().nullable().describe('in minor units; null = the provider does not say'),
    currency: z.string().nullable(),
    received_at: time,
    refunded_at: time.nullable().describe('when the provider reported that this payment was returned as a whole'),
    settled_at: time.nullable().describe('when an operator marked that it needs no action'),
    reservation_id: z.uuid().nullable().describe('null = the event names none that exists'),
    product_id: z.string().nullable(),
    campaign_name: z.string().nullable(),
    user_id: z.string().nullable().describe('null = there is no reservation, or it is not written yet'),
    order_id: z.string().nullable().describe('of the reservation, or as an event without one names it'),
    status: z.enum(REDEMPTION_STATUSES).nullable().describe('of the reservation'),
  })
  .meta({ id: 'PaymentEvent' });

export const paymentEventsContract = {
  method: 'get',
  operationId: 'listPaymentEvents',
  path: '/admin/payment-events',
  summary: 'Find what payment providers have reported, and what was done about it',
  description:
    'Latest first, for 90 days or PAYMENT_EVENTS_KEEP_DAYS; a payment that needs an action until it is settled. A page reads at most 20,000 rows, so it may have fewer rows than `limit` and ' +
    'still have a `next_cursor`. An event without a reservation belongs to no campaign.',
  tag: 'admin',
  caller: 'admin',
  query: paymentEventsQuery,
  answers: {
    200: {
      description: 'A page of events.',
      data: z.array(paymentEventData),
      members: z.object({ next_cursor: z.string().nullable() }),
    },
  },
  errors: ['unauthorized', 'forbidden', 'invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

export const settleBody = z.strictObject({
  provider: z.string().min(1, 'must not be empty').max(MAX_CURSOR),
  event_id: storable.min(1, 'must not be empty').max(MAX_CURSOR),
  reason: note.optional().describe('for the audit log'),
});

export const settleContract = {
  method: 'post',
  operationId: 'settlePaymentEvent',
  path: '/admin/payment-events/settle',
  summary: 'Mark that a payment needs no further action',
  description:
    'For what is settled outside of this service: an accepted amount, a payment that the shop has returned itself. The event, ' +
    'and others that say the same of its payment, leave the list of `needs_action`. Nothing is paid, returned or released. Idempotent.',
  tag: 'admin',
  caller: 'admin',
  body: settleBody,
  bodyExample: { provider: 'stripe', event_id: 'evt_1', reason: 'the customer paid the rest in cash' },
  answers: {
    200: {
      description: 'It is settled.',
      data: z.object({ provider: z.string(), event_id: z.string(), settled_at: time }),
    },
  },
  errors: ['unauthorized', 'forbidden', 'payment_event_not_found', 'temporarily_unavailable', ...BODY_REFUSALS],
} satisfies RouteContract;

export type PaymentEventData = z.input<typeof paymentEventData>;
