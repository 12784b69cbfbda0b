import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { SaleStore } from '../../shared/redis/sale-store.js';
import type { AmendOutcome } from '../../shared/redis/scripts/campaign.js';

/** Who the audit log names for what the clock did. */
export const CLOCK_ACTOR = 'clock';

/** How long Redis may have terms that Postgres does not have: longer than any operator's transaction. */
const AHEAD_MS = 10_000;

/** Since when Redis has had terms of this version, which Postgres does not have. */
export type TermsAhead = Map<ProductId, { version: number; sinceMs: number }>;

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
  /** Kept from one call to the next. */
  ahead: TermsAhead = new Map(),
): Promise<void> {
  const live = await campaigns.live();
  await Promise.all(
    live.map(async (campaign) => {
      const outcome = await sale.amend(campaign);
      if (outcome.kind === 'not_found') {
        const opensSoon = campaign.startsAt.getTime() - nowMs <= limits.preheatMs;
        if (!opensSoon && campaign.status === 'scheduled') return;
        await preheat(campaign);
      } else {
        await settleTerms(sale, campaigns, log, nowMs, ahead, campaign, outcome);
      }
      if (campaign.codes > 0) await sale.addCodes(campaign.productId, campaign.codes);
      if (campaign.status === 'scheduled') await apply(sale, campaign.productId, 'start', log);
      if (campaign.endsAt) await apply(sale, campaign.productId, 'finish', log);
    }),
  );
}

/**
 * Mends terms that a crash has left in Redis only (api/admin/campaigns.ts puts them there before Postgres commits): Postgres
 * gets a later version of its own terms and carries them over. A limit that was raised in Redis stays, since users may have
 * used it.
 */
async function settleTerms(
  sale: SaleStore,
  campaigns: CampaignsTable,
  log: Log,
  nowMs: number,
  ahead: TermsAhead,
  campaign: StoredCampaign,
  outcome: Exclude<AmendOutcome, { kind: 'not_found' }>,
): Promise<void> {
  const { productId, termsVersion } = campaign;
  if (outcome.kind === 'amended' || (outcome.kind === 'known' && outcome.version === termsVersion)) {
    ahead.delete(productId);
    return;
  }
  let perUserLimit = outcome.kind === 'refused' ? outcome.perUserLimit : campaign.perUserLimit;
  const version = outcome.kind === 'known' ? outcome.version : termsVersion;
  if (outcome.kind === 'known') {
    const seen = ahead.get(productId);
    if (seen?.version !== version) ahead.set(productId, { version, sinceMs: nowMs });
    if (seen?.version !== version || nowMs - seen.sinceMs <= AHEAD_MS) return;
  }
  let current = campaign;
  for (let tries = 1; tries <= 2; tries += 1) {
    const later = await campaigns.amend(
      current,
      { ...current, perUserLimit },
      current.rules,
      campaigns.database,
      version,
    );
    // An operator has changed them meanwhile.
    if (!later) return;
    const carried = await sale.amend(later);
    log.warn({ campaign: productId, version: later.termsVersion, outcome: carried.kind }, 'terms settled');
    if (carried.kind !== 'refused') return;
    perUserLimit = carried.perUserLimit;
    current = later;
  }
}

async function apply(sale: SaleStore, product: ProductId, action: 'start' | 'finish', log: Log): Promise<void> {
  const outcome = await sale.setStatus(product, action, CLOCK_ACTOR, '');
  if (outcome.kind === 'changed') log.info({ campaign: product, status: outcome.after }, 'by schedule');
}
