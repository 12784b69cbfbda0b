import type { ImageDeps } from '../../shared/image/compare-campaign.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { SaleReader } from '../../shared/sale/sale-reader.js';
import type { CommandShards } from '../command-shards.js';

/** What a command needs to compare a campaign, in each of the shards that have its buckets. */
export async function ledgerDeps(
  database: Database,
  shards: CommandShards,
  campaign: StoredCampaign,
): Promise<ImageDeps> {
  const parts = [];
  for (let bucket = 0; bucket < campaign.buckets; bucket += 1) {
    const { scripts, journal, cursor } = await shards.of(campaign.productId, bucket);
    parts.push({ sale: new SaleReader(scripts), journal, cursor });
  }
  return { parts, redemptions: new RedemptionsTable(database) };
}
