import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { BucketPartOf } from './restore-campaign.js';

export type PreheatDeps = {
  database: Database;
  campaigns: CampaignsTable;
  /** Undefined = no campaign is divided. */
  partOf?: BucketPartOf;
  sale: SaleStore;
  /** Whether the campaign is in this shard. */
  isHere: (campaign: StoredCampaign) => boolean;
  /** Persists all entries of the journal. */
  drain: () => Promise<void>;
  /** Fills one campaign from Postgres. Redis is out of service meanwhile. */
  refill: (campaign: StoredCampaign, reason: string) => Promise<void>;
};

/**
 * Loads a campaign that Redis lacks. The script loads a campaign without reservations, tickets and transfers; it
 * changes nothing if an operator has loaded the campaign meanwhile. A campaign with any of them was lost by a Redis in
 * service, so it is refilled from Postgres.
 * @throws EngineUnavailable when it is in another shard, or this process does not know where it is
 */
export async function preheat(deps: PreheatDeps, campaign: StoredCampaign): Promise<void> {
  await deps.drain();
  // Read again, because the drained entries may have changed the campaign.
  const newest = (await deps.campaigns.find(campaign.productId)) ?? campaign;
  if (!deps.isHere(newest)) throw new EngineUnavailable('postgres', 'it is not known whether the campaign is here');
  if (!(await hasHistory(deps.database, campaign.id))) {
    const part = await deps.partOf?.(newest);
    await deps.sale.campaigns.load(newest, undefined, null, null, part?.part ?? null);
    return;
  }
  if ((await deps.sale.reader.stock(campaign.productId)) === null) await deps.refill(newest, 'it is missing in Redis');
}

async function hasHistory(database: Database, campaignId: string): Promise<boolean> {
  const { rows } = await database.query<{ found: boolean }>(
    `select exists (select 1 from redemptions where campaign_id = $1)
       or exists (select 1 from waiting_tickets where campaign_id = $1)
       or exists (select 1 from stock_transfers where campaign_id = $1) as found`,
    [campaignId],
  );
  return rows[0]?.found === true;
}
