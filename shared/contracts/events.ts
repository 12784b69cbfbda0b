import { z } from 'zod';
import { CAMPAIGN_STATUSES } from '../domain/campaign.js';
import { DIFFERENCE_SIDES } from './verdict.js';

const discount = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('percent'), percent: z.number() }),
  z.object({ kind: z.literal('amount'), amount: z.int(), currency: z.string() }),
  z.object({ kind: z.literal('free_shipping') }),
]);
const time = z.iso.datetime();

const campaign = { campaign_id: z.uuid(), product_id: z.string() };
/** All fields that a reader needs to act on a single event. */
const redemption = {
  ...campaign,
  reservation_id: z.uuid(),
  user_id: z.string(),
  order_id: z.string(),
  qty: z.int(),
  discount: discount.nullable().describe('the discount of the campaign when the event happened'),
  device_fp: z.string().nullable(),
  metadata: z
    .record(z.string(), z.string())
    .optional()
    .describe('as sent with the claim; missing = none. Shoppers can send anything'),
};
const reason = z.string().nullable();
const payBefore = time.nullable().describe('null = nothing to pay');
const status = z.enum(CAMPAIGN_STATUSES);

/**
 * Every event: its type, meaning and `data`. docs/events.md is generated from this table (`npm run docs`). A change
 * that could break readers needs a new version in the type.
 */
export const EVENTS = {
  'dev.doorbuster.redemption.reserved.v1': {
    meaning: 'A unit is held until it is paid.',
    data: z.object({ ...redemption, pay_before: payBefore }),
  },
  'dev.doorbuster.redemption.redeemed.v1': {
    meaning: 'The unit belongs to the user. No `reserved` comes before it if the campaign has nothing to pay.',
    data: z.object({
      ...redemption,
      payment_ref: z.string().nullable(),
      reacquired: z.boolean().describe('paid too late, and a unit was still free; `released` or `expired` came before'),
    }),
  },
  'dev.doorbuster.redemption.released.v1': {
    meaning: 'The unit was given back unpaid.',
    data: z.object({ ...redemption, reason }),
  },
  'dev.doorbuster.redemption.expired.v1': {
    meaning: 'The reservation was not paid in time.',
    data: z.object({ ...redemption, reason }),
  },
  'dev.doorbuster.redemption.extended.v1': {
    meaning: 'The time to pay was extended, because a payment is under way. At most once for a reservation.',
    data: z.object({ ...redemption, pay_before: time }),
  },
  'dev.doorbuster.redemption.refunded.v1': {
    meaning: 'The payment was refunded.',
    data: z.object({ ...redemption, burned: z.boolean().describe('the unit is not sold again') }),
  },
  'dev.doorbuster.redemption.reduced.v1': {
    meaning:
      'Units were given back, and the user keeps the others: `qty` of `previous_qty`. Sent once for each time; with the ' +
      'reason `reconciled`, for several times together. Later events of the reservation have the new `qty`.',
    data: z.object({
      ...redemption,
      previous_qty: z.int(),
      refunded: z.boolean().describe('the units were paid; else they were released before the payment'),
      burned: z.boolean().describe('the units are not sold again'),
      reason,
    }),
  },
  'dev.doorbuster.redemption.voided.v1': {
    meaning:
      'Postgres rejected the reservation. If it was paid, the payment must be refunded. No further event follows for the reservation.',
    data: z.object({ ...redemption, reason }),
  },
  'dev.doorbuster.payment.duplicated.v1': {
    meaning:
      'A payment with another reference arrived for a reservation that is paid already: the customer was probably charged twice, and one ' +
      'of the payments has to be refunded. Sent once for each reference.',
    data: z.object({
      ...redemption,
      payment_ref: z.string(),
      already_paid_by: z.string().describe('the first reference'),
    }),
  },
  'dev.doorbuster.payment.late.v1': {
    meaning:
      'A payment provider reported a payment for a reservation that had ended, and no unit could be reserved again: the payment has to be ' +
      'refunded. Sent once for each payment.',
    data: z.object({ ...redemption, payment_ref: z.string().nullable(), provider: z.string() }),
  },
  'dev.doorbuster.payment.mismatched.v1': {
    meaning:
      'A payment provider reported a payment whose amount or currency is not the price of the campaign for this quantity. The reservation is ' +
      'redeemed, and a person has to compare them. Sent once for each payment.',
    data: z.object({
      ...redemption,
      payment_ref: z.string().nullable(),
      provider: z.string(),
      amount: z.int().describe('what was paid, in minor units'),
      currency: z.string(),
    }),
  },
  'dev.doorbuster.payment.partial.v1': {
    meaning:
      'A payment provider reported a part of an amount, and the reservation stays as it is: `part` says of what. Sent once for each payment ' +
      'of a reservation, and for each refund of a part.',
    data: z.object({
      ...redemption,
      payment_ref: z.string().nullable(),
      provider: z.string(),
      part: z
        .enum(['paid', 'refunded', 'without_unit'])
        .describe(
          '`paid`: less was paid than is due; `refunded`: less was refunded than was paid; `without_unit`: the payment of an order counts for ' +
            'its other reservations, and this one had ended, so its part has to be refunded',
        ),
      amount: z.int().nullable().describe('of the payment or of the refund, in minor units'),
      currency: z.string().nullable(),
    }),
  },
  'dev.doorbuster.payment.refunded_before.v1': {
    meaning:
      'A payment provider reported a payment whose refund it had reported before. It is not counted, and an unpaid reservation is released: ' +
      'make sure that the money is back. Sent once for each payment.',
    data: z.object({ ...redemption, payment_ref: z.string().nullable(), provider: z.string() }),
  },
  'dev.doorbuster.payment.unknown.v1': {
    meaning:
      'A payment provider reported a payment for an order or a reservation that does not exist, or that several users have. It is kept and ' +
      'tried again for a week, and then a person has to find out what was paid. Sent once for each payment, to endpoints for all campaigns.',
    data: z.object({
      provider: z.string(),
      payment_ref: z.string().nullable(),
      named: z
        .object({
          reservation_id: z.string().optional(),
          order_id: z.string().optional(),
          product_id: z.string().optional(),
        })
        .describe('how the payment names what was paid'),
      amount: z.int().nullable().describe('what was paid, in minor units'),
      currency: z.string().nullable(),
    }),
  },
  'dev.doorbuster.user.erased.v1': {
    meaning:
      'A user was erased (`DELETE /admin/users/:user_id`), and has a pseudonym now. Receivers erase what they have stored of earlier events ' +
      'of these reservations. At most 200 reservations; the others follow in further events.',
    data: z.object({ ...campaign, pseudonym: z.string(), reservation_ids: z.array(z.uuid()) }),
  },
  'dev.doorbuster.waiting.promoted.v1': {
    meaning: 'A user in the line got a unit; `reserved` or `redeemed` follows.',
    data: z.object({ ...redemption, line_no: z.int(), pay_before: payBefore }),
  },
  'dev.doorbuster.campaign.scheduled.v1': {
    meaning: 'A draft was published, and opens at its start time.',
    data: z.object({ ...campaign, before: status, status }),
  },
  'dev.doorbuster.campaign.opened.v1': {
    meaning: 'The sale began.',
    data: z.object({ ...campaign, before: status, status }),
  },
  'dev.doorbuster.campaign.paused.v1': {
    meaning:
      'New users are refused; reservations and places in line stay. `actor` is `velocity` if far more users than usual got a promise within ' +
      'seconds; then `reason` has the numbers.',
    data: z.object({ ...campaign, before: status, status, actor: z.enum(['operator', 'clock', 'velocity']), reason }),
  },
  'dev.doorbuster.campaign.resumed.v1': {
    meaning: 'The pause is over.',
    data: z.object({ ...campaign, before: status, status }),
  },
  'dev.doorbuster.campaign.closed.v1': {
    meaning: 'The sale is over for good; the line has ended.',
    data: z.object({ ...campaign, before: status, status }),
  },
  'dev.doorbuster.campaign.line_closed.v1': {
    meaning: 'All units are used and none can come back. The waiting users were notified. The campaign stays open.',
    data: z.object(campaign),
  },
  'dev.doorbuster.campaign.restocked.v1': {
    meaning: 'Units were added or taken away.',
    data: z.object({ ...campaign, delta: z.int(), total_limit: z.int() }),
  },
  'dev.doorbuster.campaign.drifted.v1': {
    meaning:
      'Redis and Postgres differ, and no repair was safe: an operator must decide. Sent once for the same differences.',
    data: z.object({
      ...campaign,
      lost: z.int(),
      duplicated: z.int(),
      over_cap: z.int(),
      drift: z.int(),
      differences: z
        .array(z.object({ reservation: z.string().nullable(), side: z.enum(DIFFERENCE_SIDES), why: z.string() }))
        .describe('the first ten'),
    }),
  },
  'dev.doorbuster.campaign.change_rejected.v1': {
    meaning:
      'A change that had been acknowledged could not be written to Postgres. It is stored in `journal_rejects`, and an operator must decide.',
    data: z.object({
      ...campaign,
      journal_id: z.string(),
      kind: z.string().nullable(),
      rejected_reservation_id: z.string().nullable(),
      rejected_user_id: z.string().nullable(),
      reason: z.string(),
    }),
  },
} as const satisfies Record<string, { meaning: string; data: z.ZodObject }>;

/** The event of POST /admin/webhooks/:id/test. It is sent to that endpoint alone, and is in no stream. */
export const TEST_EVENT_TYPE = 'dev.doorbuster.webhook.test.v1';
const TEST_EVENT = {
  meaning: 'An operator tests the endpoint. Nothing has happened; it is sent also to endpoints that want other types.',
  data: z.object({ endpoint_id: z.uuid() }),
};
/** All events that readers may receive, for the documents. */
export const DOCUMENTED_EVENTS = { ...EVENTS, [TEST_EVENT_TYPE]: TEST_EVENT } as const;
export type DocumentedType = keyof typeof DOCUMENTED_EVENTS;

/** The data of an event without what Postgres adds: the fields of the campaign and of the redemption. */
export type OwnDataOf<Type extends EventType> = Omit<z.input<(typeof EVENTS)[Type]['data']>, keyof typeof redemption>;

export type EventType = keyof typeof EVENTS;
export const EVENT_TYPES = Object.keys(EVENTS) as [EventType, ...EventType[]];

/** An event as the outbox stores it. */
export type OutboxEvent = PublishedEvent & { seq: number; type: EventType };

/** An event as it is published. */
export type PublishedEvent = {
  id: string;
  type: DocumentedType;
  subject: string;
  occurredAt: Date;
  trace: string | null;
  data: Record<string, unknown>;
};

/**
 * Returns the schema of a published event: CloudEvents 1.0 in structured mode, as the stream and the bodies of webhooks
 * have it.
 */
export function cloudEventSchema<Type extends DocumentedType>(type: Type) {
  return z.object({
    specversion: z.literal('1.0'),
    id: z.uuid().describe('the same in every delivery of the event'),
    source: z.string().describe('EVENT_SOURCE'),
    type: z.literal(type),
    subject: z
      .string()
      .describe('the reservation; of campaign events the product; of an unknown payment its reference'),
    time,
    datacontenttype: z.literal('application/json'),
    traceparent: z.string().optional().describe('if the request had one'),
    data: DOCUMENTED_EVENTS[type].data,
  });
}

/** The attributes of a CloudEvent, except `datacontenttype`, which each binding writes in its own way. */
export function cloudEventAttributes(event: PublishedEvent, source: string) {
  return {
    specversion: '1.0',
    id: event.id,
    source,
    type: event.type,
    subject: event.subject,
    time: event.occurredAt.toISOString(),
    ...(event.trace ? { traceparent: event.trace } : {}),
  };
}

/**
 * Encodes an event as CloudEvents 1.0.
 * @param extensions further attributes
 * @returns the event in structured mode, as the stream and the bodies of webhooks have it
 */
export function cloudEvent(event: PublishedEvent, source: string, extensions: Record<string, string> = {}): string {
  const { traceparent, ...attributes } = cloudEventAttributes(event, source);
  return JSON.stringify({
    ...attributes,
    datacontenttype: 'application/json',
    ...(traceparent ? { traceparent } : {}),
    ...extensions,
    data: event.data,
  });
}
