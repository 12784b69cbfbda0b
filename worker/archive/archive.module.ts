import { LIMITS } from '../../shared/config/limits.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { RequestNames } from '../../shared/redis/request-names.js';
import { CampaignArchive } from '../../shared/sale/campaign-archive.js';
import type { Core } from '../core.js';
import { ArchiveClosed } from './archive-closed.js';
import { IdempotencyKeys } from './idempotency-keys.js';

export type Archiving = {
  /** Removes the closed campaigns of a shard from Redis. */
  runOf: (shard: number) => Promise<void>;
  /** Deletes idempotency records in Postgres that have expired. */
  prune: () => Promise<void>;
};

export function archiveModule({ config, database, shards }: Core): Archiving {
  const idempotencyKeys = new IdempotencyKeys(database);
  const archives = shards.all.map(
    ({ index, sale, scripts, cursor, log }) =>
      new ArchiveClosed({
        redemptions: new RedemptionsTable(database),
        campaigns: new CampaignsTable(database),
        cursor,
        sale: sale.reader,
        bucketIn: (product) => shards.map.bucketIn(product, index),
        archive: new CampaignArchive(scripts),
        idempotencyKeys,
        requests: new RequestNames(scripts.redis),
        log,
        limits: LIMITS.archive,
      }),
  );
  return {
    runOf: (shard) => (archives[shard] as ArchiveClosed).run(),
    prune: () => idempotencyKeys.prune(config.idempotencyTtlMs, LIMITS.retention.pruneBatch),
  };
}
