import type { Findings } from '../../commands/reconcile/findings.js';
import type { RepairDeps } from '../../commands/reconcile/repair-shard.js';
import { type RestoreOptions, restoreTogether } from '../../commands/reconcile/restore.js';
import { restoreCampaign } from '../../worker/recovery/restore-campaign.js';
import type { TestCampaign } from './campaign.js';
import type { Persistence } from './persistence.js';
import { type Sale, TEST_LIMITS } from './sale.js';

/** Repairs Postgres from the only shard. */
export async function restorePostgres(deps: RepairDeps, options: RestoreOptions): Promise<Findings> {
  const [findings] = await restoreTogether([deps], options);
  if (!findings) throw new Error('a shard has no findings');
  return findings;
}

/** Fills Redis with a campaign from Postgres, as after a loss of its data. */
export async function fillAgain(sale: Sale, store: Persistence, { product }: TestCampaign): Promise<void> {
  const stored = await store.campaigns.find(product);
  if (!stored) throw new Error('the campaign is not in Postgres');
  const { database, cursor, log } = store;
  const { idempotencyTtlMs } = TEST_LIMITS;
  const parts = { database, cursor, log, sale: sale.store, idempotencyTtlMs };
  await sale.fill(async (token) => restoreCampaign(parts, stored, await sale.nowMs(), token));
}
