import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { cloudEvent } from '../../shared/contracts/events.js';
import type { ReservationId } from '../../shared/domain/ids.js';
import { storeIn } from '../../shared/payments/store-events.js';
import { type PaymentEventRow, PaymentEventsTable } from '../../shared/postgres/payment-events.js';
import {
  type NewEvent,
  paymentLateEvent,
  paymentMismatchedEvent,
  paymentPartialEvent,
  paymentRefundedBeforeEvent,
} from '../../shared/projection/events-of-entries.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import { startPersistence } from '../harness/persistence.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { restorePostgres } from '../harness/restore-postgres.js';
import { startSale } from '../harness/sale.js';

/** Postgres is set back to before a provider reported payments that a person has to decide. */
const sale = await startSale();
const store = await startPersistence(sale);
const stream = new EventStream(sale.store.scripts, 100_000);
const { database, cursor } = store;
const table = new PaymentEventsTable(database);
const parts = { redis: sale.redis, journal: sale.journal, stream, database, cursor };
const repair = () => restorePostgres(parts, { dryRun: false, settleMs: 50 });

async function publish(): Promise<void> {
  const outbox = new Outbox(database);
  const range = { after: await stream.lastSeq(), upTo: await outbox.lastSeq(), types: null };
  const events = await outbox.read(range, 10_000);
  await stream.append(events.map((event) => ({ ...event, json: cloudEvent(event, 'tests') })));
}

const reported = async () =>
  (
    await store.sql.query(
      `select provider, kind, reservation_id, payment_ref, partial, amount::int, currency, outcome, settled_at
       from payment_events order by payment_ref`,
    )
  ).rows;

test('payments that need a person come back from the events, once', async () => {
  const campaign = await store.openCampaign({ totalLimit: 5 });
  const id = (await campaign.take('ann')) as ReservationId;
  await store.persist();
  const at = { product: campaign.product, campaignNo: campaign.terms.no, id };
  const money = { amount: 500, currency: 'EUR' };
  const save = storeIn({ all: [1], of: () => ({ index: 0 }) }, database, table);
  const report = async (row: Partial<PaymentEventRow>, eventOf: (eventId: string) => NewEvent) => {
    const eventId = randomUUID();
    const all = { provider: 'stripe', eventId, kind: 'succeeded' as const, reservation: id, named: null, money };
    const rows = [{ ...all, paymentRef: 'p', partial: false, mayBeUnpaid: false, outcome: 'late', ...row }];
    await save(rows, at, [eventOf(eventId)]);
  };
  await report({ paymentRef: 'p0', money: null }, (event) => paymentLateEvent(at, 'stripe', 'p0', event));
  await publish();
  const backup = await takeBackup(store.sql);
  await report({ paymentRef: 'p1', money: null }, (event) => paymentLateEvent(at, 'stripe', 'p1', event));
  await report({ paymentRef: 'p2', outcome: 'mismatch' }, (event) =>
    paymentMismatchedEvent(at, 'stripe', 'p2', event, money),
  );
  await report({ paymentRef: 'p3', outcome: 'refunded_before', money: null }, (event) =>
    paymentRefundedBeforeEvent(at, 'stripe', 'p3', event),
  );
  await report({ paymentRef: 'p4', outcome: 'partial', partial: true }, (event) =>
    paymentPartialEvent(at, 'stripe', 'p4', event, 'paid', money),
  );
  await report({ paymentRef: 'p5', outcome: 'partial', partial: true, kind: 'refunded' }, (event) =>
    paymentPartialEvent(at, 'stripe', 'p5', event, 'refunded', money),
  );
  await publish();
  const before = await reported();
  expect(before).toHaveLength(6);
  await goBack(store.sql, backup);
  for (let times = 0; times < 2; times += 1) {
    await repair();
    expect(await reported()).toEqual(before);
  }
});
