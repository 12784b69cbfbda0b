import { campaignOfNumber } from '../domain/buckets.js';
import type { Database, Queryable } from './pool.js';

export type PaymentKind = 'succeeded' | 'failed' | 'expired' | 'refunded';

export type PaymentEventRow = {
  provider: string;
  eventId: string;
  kind: PaymentKind;
  /** null = the event names none that exists; then `named` has what it names */
  reservation: string | null;
  named: PaymentName | null;
  /** "" = none */
  paymentRef: string;
  partial: boolean;
  /** In minor units; null = the provider does not say. */
  money: { amount: number; currency: string } | null;
  /** Whether a refund may also be the end of an attempt that was never paid. */
  mayBeUnpaid: boolean;
  outcome: string;
};

/** How an event names its reservation. */
export type PaymentName = {
  reservation_id?: string | undefined;
  order_id?: string | undefined;
  product_id?: string | undefined;
  user_id?: string | undefined;
};

/** An event whose reservation was not found yet. */
export type UnknownPayment = Omit<PaymentEventRow, 'reservation' | 'outcome'> & {
  named: PaymentName;
  /** When it came, as Postgres writes it. */
  at: string;
};

/** The payments of a reservation. `further`: references after the first one. */
export type ReservationPayments = { status: string; first: string | null; further: readonly string[] };

/**
 * The SQL condition that an event needs no action, whatever its outcome: an operator has settled it, no money came, it
 * was returned since, or an earlier event says the same of the payment. @param e alias of its row in `payment_events`
 */
export const isSettled = (e: string) => `(
  ${e}.settled_at is not null
  or (${e}.outcome = 'unknown' and ${e}.kind <> 'succeeded')
  or (${e}.outcome <> 'refunded_before' and exists (select 1 from payment_events r
    where r.provider = ${e}.provider and r.payment_ref = ${e}.payment_ref and r.kind = 'refunded'
      and (not r.partial or (${e}.kind = 'succeeded' and ${e}.outcome = 'partial'))))
  or (${e}.kind = 'succeeded' and exists (select 1 from payment_events o
    where o.provider = ${e}.provider and o.payment_ref = ${e}.payment_ref and o.kind = ${e}.kind and o.outcome = ${e}.outcome
      and o.reservation_id is not distinct from ${e}.reservation_id and o.named is not distinct from ${e}.named
      and (o.received_at, o.event_id) < (${e}.received_at, ${e}.event_id))))`;

/** Table `payment_events`: what payment providers have reported. Every method throws EngineUnavailable. */
export class PaymentEventsTable {
  constructor(readonly database: Database) {}

  /** What is stored of an event, a row for each of its reservations; empty = it is new. */
  async before<Outcome extends string>(provider: string, eventId: string) {
    const { rows } = await this.database.query<{ outcome: Outcome; reservation: string | null; receivedAt: Date }>(
      `select outcome, reservation_id as reservation, received_at as "receivedAt" from payment_events
       where provider = $1 and event_id = $2`,
      [provider, eventId],
    );
    return rows;
  }

  /** The reservations of a payment, or how earlier events of it named them; empty = there are none. */
  async namesOf(provider: string, paymentRef: string): Promise<PaymentName[]> {
    if (paymentRef === '') return [];
    const { rows } = await this.database.query<{ reservation_id: string | null; named: PaymentName | null }>(
      `select distinct reservation_id, named from payment_events
       where provider = $1 and payment_ref = $2 and named is distinct from '{}' limit 100`,
      [provider, paymentRef],
    );
    const known = rows.flatMap(({ reservation_id }) => (reservation_id === null ? [] : [{ reservation_id }]));
    return known.length > 0 ? known : rows.flatMap(({ named }) => named ?? []);
  }

  /** Takes a payment that was counted after all from the list of those that came too late. */
  async forgetLate(reservation: string, paymentRef: string): Promise<void> {
    await this.database.query(
      `update payment_events set outcome = 'repeated'
       where reservation_id = $1 and payment_ref = $2 and kind = 'succeeded' and outcome = 'late'`,
      [reservation, paymentRef],
    );
  }

  /** Whether an event has counted a payment of a reservation. */
  async isCounted(reservation: string, paymentRef: string): Promise<boolean> {
    const { rowCount } = await this.database.query(
      `select 1 from payment_events where reservation_id = $1 and payment_ref = $2
         and outcome in ('confirmed', 'reacquired', 'mismatch') limit 1`,
      [reservation, paymentRef],
    );
    return rowCount !== 0;
  }

  /**
   * What was paid for reservations by a payment, in minor units; null = no event says so. A provider may report it
   * once for all of them, for each by itself, and several times. If no event names them, it is the whole payment. An
   * event without a known reservation counts if no other does.
   */
  async amountOf(provider: string, paymentRef: string, reservations: readonly string[]): Promise<number | null> {
    const { rows } = await this.database.query<{ amount: string | null }>(
      `with paid as (
         select array_agg(reservation_id order by reservation_id) as reservations, max(amount) as amount
         from payment_events where provider = $1 and payment_ref = $2 and kind = 'succeeded' group by event_id
       ), parts as (
         select reservations, max(amount) as amount from paid group by reservations
       )
       select coalesce(
         (select sum(amount) from parts where reservations && $3::uuid[]),
         (select sum(amount) from parts where reservations <> '{null}'),
         (select amount from parts where reservations = '{null}'))::text as amount`,
      [provider, paymentRef, reservations],
    );
    return rows[0]?.amount == null ? null : Number(rows[0].amount);
  }

  /**
   * Stores an event, with a row for each reservation. The rows take the place of one without a reservation.
   * @returns false when it is stored already
   */
  async insert(rows: readonly PaymentEventRow[], client: Queryable = this.database): Promise<boolean> {
    const { rowCount } = await client.query(
      `with unknown as (
         delete from payment_events e using (select $1::text as provider, $2::text as event_id) n
         where e.provider = n.provider and e.event_id = n.event_id and e.reservation_id is null and $3::uuid[] <> '{null}'
         returning e.received_at)
       insert into payment_events
         (provider, event_id, kind, reservation_id, payment_ref, partial, amount, currency, named, may_be_unpaid, outcome,
          received_at)
       select $1, $2, $4, n.reservation, nullif($5, ''), $6, $7, $8, $9, $11, n.outcome,
         coalesce((select received_at from unknown), now())
       from unnest($3::uuid[], $10::text[]) as n(reservation, outcome)
       where n.reservation is not null
         or not exists (select 1 from payment_events e where e.provider = $1 and e.event_id = $2)
       on conflict do nothing`,
      [
        ...[rows[0]?.provider, rows[0]?.eventId, rows.map(({ reservation }) => reservation), rows[0]?.kind],
        ...[rows[0]?.paymentRef, rows[0]?.partial, rows[0]?.money?.amount, rows[0]?.money?.currency, rows[0]?.named],
        ...[rows.map(({ outcome }) => outcome), rows[0]?.mayBeUnpaid],
      ],
    );
    return rowCount !== 0;
  }

  /**
   * Payments and refunds whose reservation was not found, the latest first. A refund without a name is found by its
   * payment, so it is left out until that is reported.
   * @param days they are not older @param after the last one of the page before; null = from the latest
   */
  async unknown(days: number, limit: number, after: UnknownPayment | null): Promise<UnknownPayment[]> {
    const values = [days, limit, ...(after ? [after.at, after.provider, after.eventId] : [])];
    const { rows } = await this.database.query<Unknown>(
      `select provider, event_id, kind, payment_ref, partial, amount::text as amount, currency, named,
         may_be_unpaid as "mayBeUnpaid", received_at::text as at
       from payment_events e
       where outcome = 'unknown' and named is not null and kind in ('succeeded', 'refunded')
         and not exists (select 1 from payment_events k
           where k.provider = e.provider and k.event_id = e.event_id and k.reservation_id is not null)
         and (named <> '{}' or exists (select 1 from payment_events p
           where p.provider = e.provider and p.payment_ref = e.payment_ref and p.named is distinct from '{}'))
         and received_at > now() - make_interval(days => $1)
         ${after ? 'and (received_at, provider, event_id) < ($3::timestamptz, $4, $5)' : ''}
       order by received_at desc, provider desc, event_id desc limit $2`,
      values,
    );
    return rows.map(unknownOf);
  }

  /**
   * Marks an event as settled by an operator, with the others that say the same of its payment.
   * @returns `events`: a row for each reservation of the event, empty = there is no such event; `isNew`: false = it was
   *   settled before
   */
  async settle(client: Queryable, provider: string, eventId: string) {
    const { rowCount } = await client.query(
      `update payment_events e set settled_at = now() from payment_events n
       where n.provider = $1 and n.event_id = $2 and e.provider = n.provider and e.settled_at is null
         and (e.event_id = n.event_id
           or (e.payment_ref = n.payment_ref and e.kind = n.kind and e.outcome = n.outcome))`,
      [provider, eventId],
    );
    const { rows: events } = await client.query<SettledPayment>(
      `select reservation_id as reservation, payment_ref as "paymentRef", outcome, settled_at as "settledAt"
       from payment_events where provider = $1 and event_id = $2`,
      [provider, eventId],
    );
    return { events, isNew: rowCount !== 0 };
  }

  /** Whether a payment of a reservation was refunded completely, perhaps by a refund that named no reservation. */
  async isRefunded(provider: string, reservation: string, paymentRef: string): Promise<boolean> {
    const { rowCount } = await this.database.query(
      `select 1 from payment_events where payment_ref = $3 and kind = 'refunded' and not partial
         and (reservation_id = $2 or (provider = $1 and reservation_id is null)) limit 1`,
      [provider, reservation, paymentRef],
    );
    return rowCount !== 0;
  }

  /** The references of completely refunded payments of a reservation. */
  async refunded(reservation: string): Promise<string[]> {
    const { rows } = await this.database.query<{ payment_ref: string }>(
      `select payment_ref from payment_events
       where reservation_id = $1 and kind = 'refunded' and not partial and payment_ref is not null`,
      [reservation],
    );
    return rows.map(({ payment_ref }) => payment_ref);
  }

  /** The payments of a reservation that are persisted; null = Postgres lacks the reservation. */
  async paymentsOf(campaignNo: number, reservation: string): Promise<ReservationPayments | null> {
    const { rows } = await this.database.query<{ status: string; first: string | null; further: string[] }>(
      `select r.status, r.payment_ref as first,
         array(select d.payment_ref from duplicate_payments d where d.reservation_id = r.redemption_id) as further
       from campaigns c join redemptions r on r.campaign_id = c.campaign_id and r.redemption_id = $2
       where c.no = $1`,
      [campaignOfNumber(campaignNo), reservation],
    );
    return rows[0] ?? null;
  }

  /**
   * What the units of a reservation cost by the price when it was made, in minor units. A coupon has a discount, not a
   * price.
   * @returns with the units that were refunded, because a payment may be reported later · null = the campaign has no
   *   price · 'missing' = Postgres lacks the reservation
   */
  async costOf(campaignNo: number, reservation: string) {
    const { rows } = await this.database.query<{ amount: string | null; currency: string }>(
      `select (p.amount * (r.qty + r.refunded_qty))::bigint::text as amount, p.currency
       from campaigns c
       left join redemptions r on r.campaign_id = c.campaign_id and r.redemption_id = $2
       cross join lateral (select amount, currency from campaign_prices
         where campaign_id = c.campaign_id and since <= coalesce(r.reserved_at, now()) order by since desc limit 1) p
       where c.no = $1 and p.amount is not null and c.code is null and r.code_no is null`,
      [campaignOfNumber(campaignNo), reservation],
    );
    const [row] = rows;
    if (!row) return null;
    if (row.amount === null) return 'missing' as const;
    return { amount: Number(row.amount), currency: row.currency };
  }

  /**
   * Deletes events that were received before a time, at most `limit`, and as many refunds without a name that are
   * older than `namelessMs`: a provider reports also those of what else the shop sells.
   * @param open outcomes of payments that are kept until they are settled. Oldest first, so that a payment is not
   *   kept because its refund was deleted before @returns how many were deleted
   */
  async prune(olderThanMs: number, namelessMs: number, open: readonly string[], limit: number): Promise<number> {
    const { rowCount } = await this.database.query(
      `delete from payment_events where ctid = any(array(
           select ctid from payment_events e where received_at < now() - make_interval(secs => $1)
             and (kind <> 'succeeded' or outcome <> all($4) or ${isSettled('e')}) order by received_at limit $3)
         || array(select ctid from payment_events
           where outcome = 'unknown' and named = '{}' and received_at < now() - make_interval(secs => $2) limit $3))`,
      [olderThanMs / 1000, namelessMs / 1000, limit, open],
    );
    return rowCount ?? 0;
  }
}

type SettledPayment = { reservation: string | null; paymentRef: string | null; outcome: string; settledAt: Date };
type Unknown = {
  provider: string;
  event_id: string;
  kind: PaymentKind;
  payment_ref: string | null;
  partial: boolean;
  amount: string | null;
  currency: string | null;
  named: PaymentName;
  mayBeUnpaid: boolean;
  at: string;
};

function unknownOf({ event_id, payment_ref, amount, currency, ...same }: Unknown): UnknownPayment {
  const money = amount === null || currency === null ? null : { amount: Number(amount), currency };
  return { ...same, eventId: event_id, paymentRef: payment_ref ?? '', money };
}
