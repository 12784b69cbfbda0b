import { LIMITS } from '../../shared/config/limits.js';
import { bucketOfReservation } from '../../shared/domain/buckets.js';
import { PaymentEvents } from '../../shared/payments/payment-events.js';
import { ReservationLookup } from '../../shared/payments/reservation-lookup.js';
import { storeIn } from '../../shared/payments/store-events.js';
import { PaymentEventsTable, type UnknownPayment } from '../../shared/postgres/payment-events.js';
import { ReservationOrders } from '../../shared/postgres/reservation-orders.js';
import { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import { untilWritten } from '../../shared/shards/until-written.js';
import type { Core, WorkerShard } from '../core.js';

/**
 * Returns the sweep that tries payments again whose reservation was unknown: it may have been made since, or Postgres
 * may have it only now.
 */
export function retryPayments(core: Core): () => Promise<void> {
  const { sales, shards, database, metrics, log } = core;
  const table = new PaymentEventsTable(database);
  const untilPersisted = async (all: readonly WorkerShard[]) => {
    await Promise.all(all.map((shard) => untilWritten(database, shard)));
  };
  const events = new PaymentEvents({
    sales,
    table,
    lookup: new ReservationLookup({
      sales,
      directory: new CampaignDirectory(sales, () => shards.all.map(({ gate }) => gate.generation).join()),
      orders: new ReservationOrders(database),
      orderMemoryMs: LIMITS.claims.orderMemoryMs,
      nowMs: () => core.clock.nowMs(),
      // Each run waits once, before it begins.
      untilPersisted: async () => {},
    }),
    // No response waits for the decision. It is stored after Postgres has it.
    acknowledgements: { held: (product, _, bucket) => untilPersisted([shards.of(product, bucket)]) },
    store: storeIn(shards, database, table),
    untilPersisted: ({ product, id }) => untilPersisted([shards.of(product, bucketOfReservation(id))]),
    onDuplicate: () => metrics.duplicatePayments.inc(),
  });
  /** Waits until Postgres has everything that was promised before. @returns false if a shard is away or behind */
  const isPersisted = async () => {
    const results = await Promise.allSettled(shards.all.map((shard) => untilPersisted([shard])));
    return results.every(({ status }) => status === 'fulfilled');
  };
  const retry = async ({ provider, eventId: id, named: reservation, ...event }: UnknownPayment) => {
    try {
      const { outcome } = await events.handle(provider, { ...event, id, reservation }, '');
      if (outcome === 'unknown') return;
      metrics.payments.inc({ call: provider, outcome });
      log.info({ provider, event_id: id, outcome }, 'a payment has found its reservation');
    } catch (error) {
      // The next run tries it again. Others may be of a shard that is there.
      log.warn({ provider, event_id: id, err: error }, 'a payment could not be tried again');
    }
  };
  // A run that was too long is continued by the next one.
  let after: UnknownPayment | null = null;
  return async () => {
    const { unknownDays: days, unknownBatch: limit, unknownRunMs } = LIMITS.payments;
    const until = performance.now() + unknownRunMs;
    let isWhole: boolean | null = null;
    do {
      const page: UnknownPayment[] = await table.unknown(days, limit, after);
      if (page.length > 0) isWhole ??= await isPersisted();
      // An order may have reservations that Postgres lacks while a shard is away.
      for (const one of page) if (isWhole || one.named.order_id === undefined) await retry(one);
      after = page.length < limit ? null : (page.at(-1) ?? null);
    } while (after !== null && performance.now() < until);
  };
}
