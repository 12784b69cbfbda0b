import { campaignOfNumber } from '../domain/buckets.js';
import type { Database, Queryable } from './pool.js';

export type PaymentKind = 'succeeded' | 'failed' | 'expired' | 'refunded';

export type PaymentEventRow = {
  provider: string;
  eventId: string;
  kind: PaymentKind;
  /** null = the event names none that exists */
  reservation: string | null;
  /** "" = none */
  paymentRef: string;
  partial: boolean;
  outcome: string;
};

/** The payments of a reservation. `further`: references after the first one. */
export type ReservationPayments = { status: string; first: string | null; further: readonly string[] };

/** Table `payment_events`: what payment providers have reported. Every method throws EngineUnavailable. */
export class PaymentEventsTable {
  constructor(readonly database: Database) {}

  /** The outcome of an event; null = it is new. */
  async outcomeOf(provider: string, eventId: string): Promise<string | null> {
    const { rows } = await this.database.query<{ outcome: string }>(
      'select outcome from payment_events where provider = $1 and event_id = $2',
      [provider, eventId],
    );
    return rows[0]?.outcome ?? null;
  }

  /** The reservation of a payment by an earlier event; null = there is none. */
  async reservationOf(provider: string, paymentRef: string): Promise<string | null> {
    const { rows } = await this.database.query<{ reservation_id: string }>(
      `select reservation_id from payment_events
       where provider = $1 and payment_ref = $2 and reservation_id is not null order by received_at limit 1`,
      [provider, paymentRef],
    );
    return rows[0]?.reservation_id ?? null;
  }

  /** Stores an event. @returns false when it is stored already */
  async insert(row: PaymentEventRow, client: Queryable = this.database): Promise<boolean> {
    const { rowCount } = await client.query(
      `insert into payment_events (provider, event_id, kind, reservation_id, payment_ref, partial, outcome)
       values ($1, $2, $3, $4, nullif($5, ''), $6, $7) on conflict do nothing`,
      [row.provider, row.eventId, row.kind, row.reservation, row.paymentRef, row.partial, row.outcome],
    );
    return rowCount === 1;
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

  /** Deletes events that were received before a time, at most `limit`. @returns how many were deleted */
  async prune(olderThanMs: number, limit: number): Promise<number> {
    const { rowCount } = await this.database.query(
      `delete from payment_events where ctid in (
         select ctid from payment_events where received_at < now() - make_interval(secs => $1) limit $2)`,
      [olderThanMs / 1000, limit],
    );
    return rowCount ?? 0;
  }
}
