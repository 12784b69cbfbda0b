import { join } from 'node:path';
import { projectRoot } from '../config/project-root.js';
import { CampaignBuckets } from '../postgres/campaign-buckets.js';
import type { StoredCampaign } from '../postgres/campaigns.js';
import type { Database } from '../postgres/pool.js';
import { RedemptionsTable } from '../postgres/redemptions.js';
import { ScriptRunner } from '../redis/script-runner.js';
import { SaleReader } from '../sale/sale-reader.js';
import type { CommandShards } from '../shards/command-shards.js';
import type { LedgerDeps } from './compare.js';
import { DividedSale } from './divided.js';

/** What a command needs to compare a campaign, in each of the shards that have its buckets. */
export async function ledgerDeps(
  database: Database,
  shards: CommandShards,
  campaign: StoredCampaign,
): Promise<LedgerDeps> {
  const parts = [];
  for (let bucket = 0; bucket < campaign.buckets; bucket += 1) {
    const { redis, journal, cursor } = await shards.of(campaign.productId, bucket);
    parts.push({ sale: new SaleReader(new ScriptRunner(redis, join(projectRoot(), 'lua'))), journal, cursor });
  }
  const [home, ...others] = parts;
  if (!home) throw new Error(`${campaign.productId} has no bucket`);
  const redemptions = new RedemptionsTable(database);
  if (others.length === 0) return { ...home, redemptions };
  const sale = new DividedSale(parts, new CampaignBuckets(database), campaign.id);
  return { ...home, sale, others, redemptions };
}
