import { ACTORS } from '../../shared/domain/actors.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { carryTerms } from '../../shared/image/carry-terms.js';
import type { Log } from '../../shared/observability/log.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { SaleCopy } from '../../shared/sale/sale-copy.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { UpdateTermsOutcome } from '../../shared/sale/scripts/campaign.js';
import { followHome } from './follow-home.js';

export type Schedule = {
  sale: SaleStore;
  copy: Pick<SaleCopy, 'campaign'>;
  campaigns: CampaignsTable;
  /** The campaigns that are not closed, of all shards. */
  live: readonly StoredCampaign[];
  /** Whether a campaign, or a bucket of it, is in this shard, by Postgres and by the map of this process. */
  isHere: (campaign: StoredCampaign) => boolean;
  log: Log;
  /** By the clock of Redis. */
  nowMs: number;
  limits: { preheatMs: number };
  /** Divided campaigns, open or closed, of which this shard has a bucket. */
  divided: () => Iterable<ProductId>;
  /** The store of bucket 0 of a campaign. */
  homeOf: (product: ProductId) => SaleStore;
  /** Loads a campaign into Redis, with all its data from Postgres. */
  preheat: (campaign: StoredCampaign) => Promise<void>;
};

/**
 * Applies the schedule to Redis. Every campaign that is not closed is loaded into Redis if it is missing there, so that
 * the first request finds it loaded, even if the API died between the writes to Postgres and Redis. Its newest terms
 * are copied from one to the other, and it is started and finished at its times. The scripts use the clock of Redis
 * and refuse a change that is early or already made, so a late, early or repeated run changes nothing. A bucket that
 * missed a change of its campaign follows bucket 0.
 */
export async function keepSchedule(schedule: Schedule): Promise<void> {
  const { sale, log, nowMs, limits, preheat } = schedule;
  const live = schedule.live.filter(schedule.isHere);
  // A campaign that cannot be kept does not hold up the others.
  const kept = await Promise.allSettled(
    live.map(async (campaign) => {
      const outcome = await sale.campaigns.updateTerms(campaign);
      if (outcome.kind === 'not_found') {
        const opensSoon = campaign.startsAt.getTime() - nowMs <= limits.preheatMs;
        if (!opensSoon && campaign.status === 'scheduled') return;
        await preheat(campaign);
      } else {
        await settleTerms(schedule, campaign, outcome);
      }
      if (campaign.codes > 0) await sale.campaigns.addCodes(campaign.productId, campaign.codes, campaign.buckets);
      if (campaign.status === 'scheduled') await apply(sale, campaign.productId, 'start', log);
      if (campaign.endsAt) await apply(sale, campaign.productId, 'finish', log);
    }),
  );
  // A bucket that is away does not hold up the others either.
  const followed = await Promise.allSettled(Array.from(schedule.divided(), (product) => follow(schedule, product)));
  for (const result of [...kept, ...followed]) if (result.status === 'rejected') throw result.reason;
}

/**
 * Lets a bucket follow bucket 0. While bucket 0 is away, the bucket of a campaign that Postgres has as closed is
 * closed; the closing of bucket 0 closes the campaign in Postgres.
 */
async function follow({ sale, campaigns, homeOf, live, log }: Schedule, product: ProductId): Promise<void> {
  const home = homeOf(product);
  if (home === sale || (await followHome(sale, home, product, log)) !== 'unknown') return;
  if (live.some(({ productId }) => productId === product)) return;
  // Postgres may lack the campaign, because it was set back.
  if ((await campaigns.find(product))?.status === 'closed') await apply(sale, product, 'close', log);
}

/**
 * Copies terms that only Redis has to Postgres, because those terms are in force. If Redis refuses to lower the limit
 * per user, Postgres gets the old limit back, because users may have used it.
 */
async function settleTerms(
  { sale, copy, campaigns, log }: Schedule,
  campaign: StoredCampaign,
  outcome: Exclude<UpdateTermsOutcome, { kind: 'not_found' }>,
): Promise<void> {
  const { no, productId, termsVersion } = campaign;
  if (outcome.kind === 'refused') {
    const terms = { ...campaign, perUserLimit: outcome.perUserLimit };
    const later = await campaigns.amend(campaign, terms, campaign.rules, campaigns.database, termsVersion);
    // An operator has changed the terms meanwhile.
    if (!later) return;
    await sale.campaigns.updateTerms(later);
    log.warn(
      { campaign: productId, version: later.termsVersion },
      'the limit per user was not lowered, because users may have used it',
    );
  } else if (outcome.kind === 'known' && outcome.version > termsVersion) {
    const terms = await carryTerms(campaigns.database, copy, no, productId);
    if (terms.kind === 'carried')
      log.warn({ campaign: productId, version: terms.version }, 'the terms in Redis were copied to Postgres');
  }
}

async function apply(
  sale: SaleStore,
  product: ProductId,
  action: 'start' | 'finish' | 'close',
  log: Log,
): Promise<void> {
  const outcome = await sale.campaigns.setStatus(product, action, ACTORS.clock, '');
  if (outcome.kind === 'changed')
    log.info({ campaign: product, status: outcome.after }, 'a campaign changed by schedule');
}
