import { campaignOfNumber, MAX_BUCKETS, numberOfBucket } from '../../shared/domain/buckets.js';
import { type CampaignNo, campaignNoOf } from '../../shared/domain/ids.js';
import type { RedemptionStatus } from '../../shared/domain/reservation.js';
import { isSettled, type PaymentKind } from '../../shared/postgres/payment-events.js';
import type { Database } from '../../shared/postgres/pool.js';

/** What to look for. Every given field must hold; null = any. */
export type PaymentEventFilter = {
  /** The event is about one of these reservations. */
  reservations: readonly string[] | null;
  /** Or it names this order, of which no reservation was found; null = no such event. */
  namedOrder: string | null;
  paymentRef: string | null;
  outcomes: readonly string[] | null;
  /** Whether only events are meant that still need an action. */
  isOpen: boolean;
  provider: string | null;
  campaignNo: CampaignNo | null;
  from: Date | null;
  /** excluded */
  to: Date | null;
};

/** The place of a row in the order of pages. `micros`: when it was received, in microseconds since 1970. */
export type PaymentEventCursor = { micros: string; provider: string; eventId: string; reservation: string | null };

/** An event with its reservation, as far as Postgres has it. */
export type FoundPaymentEvent = {
  provider: string;
  event_id: string;
  kind: PaymentKind;
  outcome: string;
  partial: boolean;
  payment_ref: string | null;
  /** In minor units; null = the provider does not say. */
  amount: number | null;
  currency: string | null;
  received_at: Date;
  /** When the provider reported a complete refund of this payment; null = it has not. */
  refunded_at: Date | null;
  /** When an operator marked that it needs no action; null = none has. */
  settled_at: Date | null;
  reservation_id: string | null;
  product_id: string | null;
  campaign_name: string | null;
  user_id: string | null;
  order_id: string | null;
  status: RedemptionStatus | null;
};

type Event = Pick<
  FoundPaymentEvent,
  | 'provider'
  | 'event_id'
  | 'kind'
  | 'outcome'
  | 'partial'
  | 'payment_ref'
  | 'currency'
  | 'received_at'
  | 'settled_at'
  | 'reservation_id'
> & { micros: string; amount: string | null; named_order: string | null };
type Details = Pick<FoundPaymentEvent, 'product_id' | 'campaign_name' | 'user_id' | 'order_id' | 'status'>;

/** Rows that one page reads at most, and at most for each outcome. */
const SCANNED_ROWS = 20_000;
const ORDER = 'received_at desc, provider desc, event_id desc, reservation_id desc';
const NO_DETAILS: Details = { product_id: null, campaign_name: null, user_id: null, order_id: null, status: null };

/** Searches `payment_events`, latest first. Each search reads a bounded number of rows. */
export class PaymentEventSearch {
  constructor(readonly database: Database) {}

  /**
   * Finds a page of events. It may have fewer rows than `limit`, even none, and not be the last one.
   * @returns `next`: the cursor of the next page; null = this is the last one
   * @throws EngineUnavailable
   */
  async page(
    filter: PaymentEventFilter,
    limit: number,
    after: PaymentEventCursor | null,
  ): Promise<{ rows: FoundPaymentEvent[]; next: PaymentEventCursor | null }> {
    const values: unknown[] = [];
    const bind = (value: unknown): string => `$${values.push(value)}`;
    const source = sourceOf(filter, after, bind);
    const matches = conditionsOf(filter, bind);
    const { rows } = await this.database.query<Event & { scanned: number; is_match: boolean }>(
      `with scanned as materialized (select e.* from (${source}) e order by ${ORDER} limit ${SCANNED_ROWS}),
         summary as (select count(*)::int as scanned from scanned),
         matching as (select *, true as is_match from scanned where ${matches.join(' and ')} order by ${ORDER} limit ${bind(limit + 1)}),
         oldest as (select *, false as is_match from scanned order by received_at, provider, event_id, reservation_id limit 1)
       select provider, event_id, kind, outcome, partial, payment_ref, amount::text as amount, currency, received_at, settled_at, reservation_id,
         named ->> 'order_id' as named_order, is_match, scanned,
         (extract(epoch from received_at) * 1000000)::bigint::text as micros
       from (select * from matching union all select * from oldest) e, summary order by is_match desc, ${ORDER}`,
      values,
    );
    const found = rows.filter(({ is_match }) => is_match);
    const page = found.slice(0, limit);
    const oldest = rows.at(-1);
    const isCut = oldest?.scanned === SCANNED_ROWS;
    const last = found.length > limit ? page.at(-1) : isCut ? oldest : undefined;
    return { rows: await this.#withDetails(page), next: last ? cursorOf(last) : null };
  }

  async #withDetails(events: readonly Event[]): Promise<FoundPaymentEvent[]> {
    if (events.length === 0) return [];
    const [reservations, refunds] = await Promise.all([this.#reservations(events), this.#refunds(events)]);
    return events.map((event) => ({
      ...(reservations.get(event.reservation_id ?? '') ?? { ...NO_DETAILS, order_id: event.named_order }),
      amount: event.amount === null ? null : Number(event.amount),
      currency: event.currency,
      ...{ provider: event.provider, event_id: event.event_id, kind: event.kind, outcome: event.outcome },
      ...{ partial: event.partial, payment_ref: event.payment_ref, received_at: event.received_at },
      reservation_id: event.reservation_id,
      settled_at: event.settled_at,
      refunded_at: refunds.get(`${event.provider} ${event.payment_ref}`) ?? null,
    }));
  }

  async #reservations(events: readonly Event[]): Promise<ReadonlyMap<string, Details>> {
    const ids = [...new Set(events.flatMap(({ reservation_id }) => reservation_id ?? []))];
    const { rows } = await this.database.query<Details & { id: string }>(
      `select n.id, c.product_id, c.name as campaign_name, r.user_id, r.order_id, r.status
       from unnest($1::uuid[], $2::int[]) as n(id, no) join campaigns c on c.no = n.no
       left join redemptions r on r.campaign_id = c.campaign_id and r.redemption_id = n.id`,
      [ids, ids.map((id) => campaignOfNumber(campaignNoOf(id)))],
    );
    return new Map(rows.map(({ id, ...details }) => [id, details]));
  }

  async #refunds(events: readonly Event[]): Promise<ReadonlyMap<string, Date>> {
    const refs = [...new Set(events.flatMap(({ payment_ref }) => payment_ref ?? []))];
    const { rows } = await this.database.query<{ provider: string; payment_ref: string; at: Date }>(
      `select provider, payment_ref, min(received_at) as at from payment_events
       where payment_ref = any($1) and kind = 'refunded' and not partial group by provider, payment_ref`,
      [refs],
    );
    return new Map(rows.map(({ provider, payment_ref, at }) => [`${provider} ${payment_ref}`, at]));
  }
}

/** A subquery that an index serves in the order of pages. The most selective field chooses the index. */
function sourceOf(
  { reservations, namedOrder, paymentRef, outcomes, from, to }: PaymentEventFilter,
  after: PaymentEventCursor | null,
  bind: (value: unknown) => string,
): string {
  const within = [
    ...(from === null ? [] : [`received_at >= ${bind(from)}`]),
    ...(to === null ? [] : [`received_at < ${bind(to)}`]),
  ];
  if (after !== null) {
    const received = `timestamptz 'epoch' + ${bind(after.micros)}::bigint * interval '1 microsecond'`;
    const names = `${bind(after.provider)}, ${bind(after.eventId)}, ${bind(after.reservation)}::uuid`;
    within.push(`(received_at, provider, event_id, reservation_id) < (${received}, ${names})`);
  }
  const by = (...conditions: string[]) => {
    const all = [...conditions, ...within];
    return `select * from payment_events ${all.length > 0 ? `where ${all.join(' and ')}` : ''} order by ${ORDER} limit ${SCANNED_ROWS}`;
  };
  if (reservations !== null) {
    const ofThem = `reservation_id = any(${bind(reservations)}::uuid[])`;
    if (namedOrder === null) return by(ofThem);
    return by(`(${ofThem} or (outcome = 'unknown' and named ->> 'order_id' = ${bind(namedOrder)}))`);
  }
  if (paymentRef !== null) return by(`payment_ref = ${bind(paymentRef)}`);
  if (outcomes === null) return by();
  return `select w.* from unnest(${bind(outcomes)}::text[]) o(name) cross join lateral (${by('outcome = o.name')}) w`;
}

/** What the index does not filter. A reservation id ends with the number of its campaign and bucket. */
function conditionsOf(filter: PaymentEventFilter, bind: (value: unknown) => string): string[] {
  const { paymentRef, outcomes, isOpen, provider, campaignNo } = filter;
  const numbers = (no: CampaignNo) =>
    Array.from({ length: MAX_BUCKETS }, (_, bucket) => numberOfBucket(no, bucket).toString(16).padStart(8, '0'));
  return [
    'true',
    ...(paymentRef === null ? [] : [`payment_ref = ${bind(paymentRef)}`]),
    ...(outcomes === null ? [] : [`outcome = any(${bind(outcomes)}::text[])`]),
    ...(isOpen ? [`not ${isSettled('scanned')}`] : []),
    ...(provider === null ? [] : [`provider = ${bind(provider)}`]),
    ...(campaignNo === null ? [] : [`right(reservation_id::text, 8) = any(${bind(numbers(campaignNo))}::text[])`]),
  ];
}

const cursorOf = ({ micros, provider, event_id, reservation_id }: Event): PaymentEventCursor => ({
  ...{ micros, provider, eventId: event_id, reservation: reservation_id },
});
