import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import { RestoredCampaigns } from '../../shared/restore-postgres/restored-campaigns.js';
import type { SaleCopy } from '../../shared/sale/sale-copy.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { UpdateTermsOutcome } from '../../shared/sale/scripts/campaign.js';

/** Who the audit log names for what the clock did. */
export const CLOCK_ACTOR = 'clock';

/** How long Redis may have terms that Postgres does not have: longer than any operator's transaction. */
const AHEAD_MS = 10_000;

/** Since when Redis has had terms of this version, which Postgres does not have. */
export type TermsAhead = Map<ProductId, { version: number; sinceMs: number }>;

export type Schedule = {
  sale: SaleStore;
  copy: Pick<SaleCopy, 'campaign'>;
  campaigns: CampaignsTable;
  log: Log;
  /** By the clock of Redis. */
  nowMs: number;
  limits: { preheatMs: number };
  /** Puts a campaign into Redis with all that Postgres knows of it. */
  preheat: (campaign: StoredCampaign) => Promise<void>;
  /** Kept from one call to the next. */
  ahead: TermsAhead;
};

/**
 * Brings Redis and the calendar together. Every campaign that is not closed is put into Redis if it is missing there
 * (so the first request meets a warm sale, also when the API died between Postgres and Redis), its newest terms are
 * carried over, and it is started and finished at its times. The scripts judge by Redis's clock and refuse what is early
 * or done, so running late, early or twice changes nothing.
 */
export async function keepSchedule(schedule: Schedule): Promise<void> {
  const { sale, campaigns, log, nowMs, limits, preheat } = schedule;
  const live = await campaigns.live();
  await Promise.all(
    live.map(async (campaign) => {
      const outcome = await sale.campaigns.updateTerms(campaign);
      if (outcome.kind === 'not_found') {
        const opensSoon = campaign.startsAt.getTime() - nowMs <= limits.preheatMs;
        if (!opensSoon && campaign.status === 'scheduled') return;
        await preheat(campaign);
      } else {
        await settleTerms(schedule, campaign, outcome);
      }
      if (campaign.codes > 0) await sale.campaigns.addCodes(campaign.productId, campaign.codes);
      if (campaign.status === 'scheduled') await apply(sale, campaign.productId, 'start', log);
      if (campaign.endsAt) await apply(sale, campaign.productId, 'finish', log);
    }),
  );
}

/**
 * Gives Postgres the terms that only Redis has: they are in force. A crash leaves them (api/admin/campaigns.ts puts terms into
 * Redis before Postgres commits them), and so does a Postgres that was set back. A limit that Redis refuses to lower stays,
 * since users may have used it.
 */
async function settleTerms(
  { sale, copy, campaigns, log, nowMs, ahead }: Schedule,
  campaign: StoredCampaign,
  outcome: Exclude<UpdateTermsOutcome, { kind: 'not_found' }>,
): Promise<void> {
  const { productId, termsVersion } = campaign;
  if (outcome.kind === 'amended' || (outcome.kind === 'known' && outcome.version === termsVersion)) {
    ahead.delete(productId);
    return;
  }
  if (outcome.kind === 'refused') {
    const terms = { ...campaign, perUserLimit: outcome.perUserLimit };
    const later = await campaigns.amend(campaign, terms, campaign.rules, campaigns.database, termsVersion);
    // An operator has changed them meanwhile.
    if (!later) return;
    await sale.campaigns.updateTerms(later);
    log.warn({ campaign: productId, version: later.termsVersion }, 'the limit per user stays as it was');
    return;
  }
  const { version } = outcome;
  const seen = ahead.get(productId);
  if (seen?.version !== version) ahead.set(productId, { version, sinceMs: nowMs });
  if (seen?.version !== version || nowMs - seen.sinceMs <= AHEAD_MS) return;
  const inForce = await copy.campaign(productId);
  if (inForce?.version !== version) return;
  const raised = await campaigns.database.transaction(async (client) => {
    const row = { no: campaign.no, version: termsVersion };
    // An operator has changed them meanwhile.
    if (!(await new RestoredCampaigns(client).raiseTerms(row, inForce))) return false;
    const [before, after] = [{ version: termsVersion }, { version, name: inForce.details?.name ?? campaign.name }];
    const action = 'campaign.amend';
    await writeAudit(client, { actor: CLOCK_ACTOR, action, campaignId: campaign.id, before, after, requestId: '' });
    return true;
  });
  if (raised) log.warn({ campaign: productId, version }, 'Postgres has the terms of Redis');
}

async function apply(sale: SaleStore, product: ProductId, action: 'start' | 'finish', log: Log): Promise<void> {
  const outcome = await sale.campaigns.setStatus(product, action, CLOCK_ACTOR, '');
  if (outcome.kind === 'changed') log.info({ campaign: product, status: outcome.after }, 'by schedule');
}
