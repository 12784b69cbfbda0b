import { LIMITS } from '../../shared/config/limits.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { CampaignArchive } from '../../shared/sale/campaign-archive.js';
import type { Core } from '../core.js';
import { ArchiveClosed } from './archive-closed.js';
import { IdempotencyKeys } from './idempotency-keys.js';
import { IdempotencyRows } from './idempotency-rows.js';

export type Archiving = {
  /** Removes closed campaigns from Redis. */
  run: () => Promise<void>;
  /** Deletes idempotency records in Postgres that have expired. */
  prune: () => Promise<void>;
};

export function archiveModule({ config, database, sale, log }: Core): Archiving {
  const archive = new ArchiveClosed({
    redemptions: new RedemptionsTable(database),
    campaigns: new CampaignsTable(database),
    cursor: new JournalCursor(database),
    sale: sale.reader,
    archive: new CampaignArchive(sale.scripts),
    idempotencyKeys: new IdempotencyKeys(database),
    log,
    limits: LIMITS,
  });
  const rows = new IdempotencyRows(database);
  return { run: () => archive.run(), prune: () => rows.prune(config.idempotencyTtlMs, LIMITS.pruneBatch) };
}
