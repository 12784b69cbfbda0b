import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';

export type PreheatDeps = {
  database: Database;
  campaigns: CampaignsTable;
  sale: SaleStore;
  /** Writes to Postgres what the journal has. */
  drain: () => Promise<void>;
  /** Fills one campaign from Postgres, with everybody kept out meanwhile. */
  refill: (campaign: StoredCampaign, reason: string) => Promise<void>;
};

/**
 * Puts a campaign into Redis that was not there a moment ago. One without any reservation is put there by the script,
 * which leaves alone what an operator has put there first. One with a history was lost from a Redis that is in service.
 */
export async function preheat(deps: PreheatDeps, campaign: StoredCampaign): Promise<void> {
  await deps.drain();
  // Read again: what was drained may have changed it.
  const newest = (await deps.campaigns.find(campaign.productId)) ?? campaign;
  if (!(await hasHistory(deps.database, campaign.id))) {
    await deps.sale.campaigns.load(newest);
    return;
  }
  if ((await deps.sale.reader.stock(campaign.productId)) === null) await deps.refill(newest, 'it is missing in Redis');
}

async function hasHistory(database: Database, campaignId: string): Promise<boolean> {
  const { rows } = await database.query<{ found: boolean }>(
    `select exists (select 1 from redemptions where campaign_id = $1)
       or exists (select 1 from waiting_tickets where campaign_id = $1) as found`,
    [campaignId],
  );
  return rows[0]?.found === true;
}
