import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { SaleStore } from '../../shared/redis/sale-store.js';

/** Who the audit log names for what the clock did. */
export const CLOCK_ACTOR = 'clock';

/**
 * Brings Redis and the calendar together. Every campaign that is not closed is put into Redis if it is missing there
 * (so the first request meets a warm sale, also when the API died between Postgres and Redis), its newest terms are
 * carried over, and it is started and finished at its times. The scripts judge by Redis's clock and refuse what is early
 * or done, so running late, early or twice changes nothing.
 */
export async function keepSchedule(
  sale: SaleStore,
  campaigns: CampaignsTable,
  log: Log,
  nowMs: number,
  limits: { preheatMs: number },
  /** Puts a campaign into Redis with all that Postgres knows of it. */
  preheat: (campaign: StoredCampaign) => Promise<void>,
): Promise<void> {
  const live = await campaigns.live();
  const known = new Set((await sale.directory()).values());
  await Promise.all(
    live.map(async (campaign) => {
      const opensSoon = campaign.startsAt.getTime() - nowMs <= limits.preheatMs;
      if (!known.has(campaign.productId) && (opensSoon || campaign.status !== 'scheduled')) await preheat(campaign);
      await sale.amend(campaign);
      if (campaign.codes > 0) await sale.addCodes(campaign.productId, campaign.codes);
      if (campaign.status === 'scheduled') await apply(sale, campaign.productId, 'start', log);
      if (campaign.endsAt) await apply(sale, campaign.productId, 'finish', log);
    }),
  );
}

async function apply(sale: SaleStore, product: ProductId, action: 'start' | 'finish', log: Log): Promise<void> {
  const outcome = await sale.setStatus(product, action, CLOCK_ACTOR, '');
  if (outcome.kind === 'changed') log.info({ campaign: product, status: outcome.after }, 'by schedule');
}
