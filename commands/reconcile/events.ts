import type { PaymentOutcome } from '../../shared/payments/payment-event.js';
import { Batch } from '../../shared/postgres/batch.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import type { StreamEvent } from '../../shared/redis/event-stream.js';

const EVENTS = new Batch({
  ...{ reservation: 'uuid', at: 'timestamptz', payment: 'text', campaign: 'uuid', id: 'text', provider: 'text' },
  ...{ amount: 'bigint', currency: 'text', part: 'text' },
});
type Data = { time: string; data?: Partial<Record<string, unknown>> };

/**
 * Writes what a provider has reported and a person has to decide, unless Postgres has it. The event does not say the id
 * that the provider gave it, so the row has another one.
 * @param part SQL condition of a payment of which this was a part
 */
const reportedPayment = (outcome: PaymentOutcome, kind = "'succeeded'", part = 'false') =>
  `insert into payment_events (provider, event_id, kind, reservation_id, payment_ref, partial, amount, currency, outcome,
     received_at)
   select n.provider, 'restored:' || n.id, ${kind}, n.reservation, n.payment, ${part}, n.amount, n.currency, '${outcome}', n.at
   from ${EVENTS.sql}
   where not exists (select 1 from payment_events e where e.provider = n.provider and e.reservation_id = n.reservation
     and e.kind = ${kind} and e.outcome = '${outcome}' and e.payment_ref is not distinct from n.payment
     and (e.kind <> 'refunded' or e.amount is not distinct from n.amount))
   on conflict do nothing`;

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
  'dev.doorbuster.payment.late.v1': [reportedPayment('late')],
  'dev.doorbuster.payment.mismatched.v1': [reportedPayment('mismatch')],
  'dev.doorbuster.payment.refunded_before.v1': [reportedPayment('refunded_before')],
  'dev.doorbuster.payment.partial.v1': [
    reportedPayment(
      'partial',
      "case n.part when 'refunded' then 'refunded' else 'succeeded' end",
      "n.part <> 'without_unit'",
    ),
  ],
  'dev.doorbuster.waiting.promoted.v1': [
    `update redemptions r set reserved_at = n.at from ${EVENTS.sql}
     where r.redemption_id = n.reservation and r.reserved_at <> n.at`,
    `update waiting_tickets t set ended_at = n.at from ${EVENTS.sql}
     where t.reservation_id = n.reservation and t.status = 'promoted' and t.ended_at <> n.at`,
  ],
};

/** Writes what only events have: payments, and the times of promotions. */
export async function fillFromEvents(client: Queryable, events: readonly StreamEvent[]): Promise<void> {
  for (const [type, statements] of Object.entries(FILLED_FROM)) {
    const rows = events.filter((one) => one.type === type).map(rowOf);
    if (rows.length > 0) for (const sql of statements) await client.query(sql, EVENTS.of(rows));
  }
}

function rowOf({ id, subject, json }: StreamEvent) {
  const { time, data = {} } = JSON.parse(json) as Data;
  const {
    payment_ref,
    campaign_id: campaign = null,
    provider = null,
    amount = null,
    currency = null,
    part = null,
  } = data;
  const payment = payment_ref || null;
  return { reservation: subject, at: time, payment, campaign, id, provider, amount, currency, part };
}
