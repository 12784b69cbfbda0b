import { join } from 'node:path';
import { projectRoot } from '../config/project-root.js';
import type { ImageDeps } from '../image/compare-campaign.js';
import type { StoredCampaign } from '../postgres/campaigns.js';
import type { Database } from '../postgres/pool.js';
import { RedemptionsTable } from '../postgres/redemptions.js';
import { ScriptRunner } from '../redis/script-runner.js';
import { SaleReader } from '../sale/sale-reader.js';
import type { CommandShards } from '../shards/command-shards.js';

/** What a command needs to compare a campaign, in each of the shards that have its buckets. */
export async function ledgerDeps(
  database: Database,
  shards: CommandShards,
  campaign: StoredCampaign,
): Promise<ImageDeps> {
  const parts = [];
  for (let bucket = 0; bucket < campaign.buckets; bucket += 1) {
    const { redis, journal, cursor } = await shards.of(campaign.productId, bucket);
    parts.push({ sale: new SaleReader(new ScriptRunner(redis, join(projectRoot(), 'lua'))), journal, cursor });
  }
  return { parts, redemptions: new RedemptionsTable(database) };
}
