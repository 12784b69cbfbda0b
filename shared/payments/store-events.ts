import { FIRST_BUCKET } from '../domain/buckets.js';
import type { ProductId } from '../domain/ids.js';
import type { PaymentEventsTable } from '../postgres/payment-events.js';
import type { Database } from '../postgres/pool.js';
import { JournalCursor } from '../projection/journal-cursor.js';
import { insertEvents, insertUnknownPayment } from '../projection/new-events.js';
import type { PaymentEventsDeps } from './payment-events.js';

type AllShards = { all: readonly unknown[]; of(product: ProductId, bucket: number): { index: number } };

/** Stores events of providers. Those that make no event of ours need no transaction. */
export function storeIn(shards: AllShards, database: Database, table: PaymentEventsTable): PaymentEventsDeps['store'] {
  return async (rows, at, events) => {
    const [row] = rows;
    const unknown = at === null && row?.kind === 'succeeded' ? row : null;
    if (events.length === 0 && unknown === null) return table.insert(rows);
    const shard = at === null ? 0 : shards.of(at.product, FIRST_BUCKET).index;
    const cursor = new JournalCursor(database, shard, shards.all.length > 1);
    return database.transaction(async (client) => {
      // Every writer of events holds this lock, so that the order of events is the order of commits.
      await cursor.lock(client);
      await cursor.lockWrites(client);
      if (!(await table.insert(rows, client))) return false;
      await insertEvents(client, events);
      if (unknown) {
        const { provider, eventId, paymentRef, named, money } = unknown;
        const { amount = null, currency = null } = money ?? {};
        // The user stays in the row, where an erasure finds it.
        const { user_id: _, ...name } = named ?? {};
        const data = { provider, payment_ref: paymentRef || null, named: name, amount, currency };
        await insertUnknownPayment(client, data, eventId);
      }
      return true;
    });
  };
}
