import { Batch } from '../../shared/postgres/batch.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import type { EventStream, StreamEvent } from '../../shared/redis/event-stream.js';
import { BATCH } from './batch.js';

/** The events of the stream: number → id. */
export async function publishedIn(stream: EventStream): Promise<Map<number, string>> {
  const published = new Map<number, string>();
  for await (const events of stream.entries(BATCH)) for (const { seq, id } of events) published.set(seq, id);
  return published;
}

const EVENTS = new Batch({ reservation: 'uuid', at: 'timestamptz', payment: 'text', campaign: 'uuid' });
type Data = { time: string; data?: { payment_ref?: string | null; campaign_id?: string } };

/** Type of an event → what Postgres lacks of it when the entry is lost. */
const FILLED_FROM: Record<string, readonly string[]> = {
  'dev.doorbuster.redemption.redeemed.v1': [
    `update redemptions r set payment_ref = n.payment from ${EVENTS.sql}
     where r.redemption_id = n.reservation and n.payment is not null and r.payment_ref is null
       and r.status in ('redeemed', 'refunded')`,
  ],
  'dev.doorbuster.payment.duplicated.v1': [
    `insert into duplicate_payments (reservation_id, payment_ref, campaign_id, paid_at)
     select n.reservation, n.payment, n.campaign, n.at from ${EVENTS.sql} join campaigns c on c.campaign_id = n.campaign
     on conflict (reservation_id, payment_ref) do nothing`,
  ],
  'dev.doorbuster.waiting.promoted.v1': [
    `update redemptions r set reserved_at = n.at from ${EVENTS.sql}
     where r.redemption_id = n.reservation and r.reserved_at <> n.at`,
    `update waiting_tickets t set ended_at = n.at from ${EVENTS.sql}
     where t.reservation_id = n.reservation and t.status = 'promoted' and t.ended_at <> n.at`,
  ],
};

/** Writes what only events have: references of payments, and the times of promotions. */
export async function fillFromEvents(client: Queryable, events: readonly StreamEvent[]): Promise<void> {
  for (const [type, statements] of Object.entries(FILLED_FROM)) {
    const rows = events.filter((one) => one.type === type).map(rowOf);
    if (rows.length > 0) for (const sql of statements) await client.query(sql, EVENTS.of(rows));
  }
}

function rowOf({ subject, json }: StreamEvent) {
  const { time, data } = JSON.parse(json) as Data;
  return { reservation: subject, at: time, payment: data?.payment_ref || null, campaign: data?.campaign_id ?? null };
}
