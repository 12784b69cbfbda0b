import { ClaimErasure } from '../../shared/archive/claim-erasure.js';
import { LIMITS } from '../../shared/config/limits.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { ExpiredData } from '../../shared/postgres/expired-data.js';
import { UserRows } from '../../shared/postgres/user-rows.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { UserRecords } from '../../shared/sale/user-records.js';
import type { Core } from '../core.js';
import type { RetentionDeps } from './retention.js';

/** What the removal of old data needs. */
export function retentionOf({ config, database, sales, log }: Core): RetentionDeps {
  const cursor = new JournalCursor(database, 0, config.shards > 1);
  const rows = new UserRows(database, async (client) => {
    await cursor.lock(client);
    await cursor.lockWrites(client);
  });
  return {
    keep: config.retention,
    expired: new ExpiredData(database),
    claims: new ClaimErasure({
      rows,
      recordsOf: ({ productId }, user) =>
        new UserRecords(sales.of(productId, sales.bucketOf(productId, user)).reader.scripts),
    }),
    isArchived: async (product: ProductId) => {
      const found = await Promise.all(sales.all(product).map(({ reader }) => reader.archived(product)));
      return found.every((one) => one !== null);
    },
    log,
    limits: LIMITS,
  };
}
