import type { Queryable } from '../../shared/postgres/pool.js';
import { type DuplicatePayment, type Promotion, RestoredDetails } from '../../shared/postgres/restored-details.js';
import type { EventStream, StreamEvent } from '../../shared/redis/event-stream.js';
import { BATCH } from './batch.js';

/** The events of the stream: number → id. */
export async function publishedIn(stream: EventStream): Promise<Map<number, string>> {
  const published = new Map<number, string>();
  for await (const events of stream.entries(BATCH)) for (const { seq, id } of events) published.set(seq, id);
  return published;
}

/** Writes what only events have: references of payments, and the times of promotions. */
export async function fillFromEvents(client: Queryable, events: readonly StreamEvent[]): Promise<void> {
  const details = new RestoredDetails(client);
  await details.fillPayments(paymentsIn(events));
  await details.fillDuplicatePayments(duplicatePaymentsIn(events));
  await details.fillPromotions(promotionsIn(events));
}

function paymentsIn(events: readonly StreamEvent[]): { reservation: string; payment: string }[] {
  return events.flatMap(({ type, subject, json }) => {
    if (type !== 'dev.doorbuster.redemption.redeemed.v1') return [];
    const { data } = JSON.parse(json) as { data?: { payment_ref?: string | null } };
    return data?.payment_ref ? [{ reservation: subject, payment: data.payment_ref }] : [];
  });
}

function duplicatePaymentsIn(events: readonly StreamEvent[]): DuplicatePayment[] {
  return events.flatMap(({ type, subject, json }) => {
    if (type !== 'dev.doorbuster.payment.duplicated.v1') return [];
    const { time, data } = JSON.parse(json) as { time: string; data: { payment_ref: string; campaign_id: string } };
    return [{ reservation: subject, payment: data.payment_ref, campaign: data.campaign_id, at: time }];
  });
}

function promotionsIn(events: readonly StreamEvent[]): Promotion[] {
  return events.flatMap(({ type, subject, json }) => {
    if (type !== 'dev.doorbuster.waiting.promoted.v1') return [];
    const { time } = JSON.parse(json) as { time: string };
    return [{ reservation: subject, at: time }];
  });
}
