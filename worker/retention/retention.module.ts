import { LIMITS } from '../../shared/config/limits.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import type { Core } from '../core.js';
import { ExpiredData } from './expired-data.js';
import type { RetentionDeps } from './retention.js';

/** What the removal of old data needs. */
export function retentionOf(
  { config, database, sales, shards, log }: Core,
  claims: RetentionDeps['claims'],
): RetentionDeps {
  return {
    keep: config.retention,
    expired: new ExpiredData(database),
    claims,
    stream: new EventStream(shards.home.scripts, LIMITS.events.streamLength),
    lastEvent: () => claims.deps.rows.lastEvent(),
    isArchived: async (product: ProductId) => {
      const found = await Promise.all(sales.all(product).map(({ reader }) => reader.archived(product)));
      return found.every((one) => one !== null);
    },
    log,
    limits: { ...LIMITS.retention, publishWaitMs: LIMITS.events.publishWaitMs },
  };
}
