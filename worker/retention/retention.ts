import { type ClaimErasure, type ErasureRun, StillActive } from '../../shared/archive/claim-erasure.js';
import type { RetentionConfig } from '../../shared/config/retention.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import { newPseudonym } from '../../shared/postgres/erasures.js';
import type { ExpiredCampaign, ExpiredData } from './expired-data.js';

/** Campaigns that one run looks at. */
const CAMPAIGNS = 20;

export type RetentionDeps = {
  keep: RetentionConfig;
  expired: ExpiredData;
  claims: ClaimErasure;
  /** Whether Redis has archived a campaign, in every bucket. */
  isArchived: (product: ProductId) => Promise<boolean>;
  log: Log;
  limits: { pruneBatch: number; pruneBatches: number; retentionUsers: number; retentionRunMs: number };
};

/**
 * Removes data that are older than the settings allow. One run removes a bounded number, and the next one continues.
 * @throws EngineUnavailable
 */
export async function removeExpired(deps: RetentionDeps): Promise<void> {
  const { keep, expired, limits } = deps;
  const inBatches = async (remove: (limit: number) => Promise<number>) => {
    for (let batch = 0; batch < limits.pruneBatches; batch += 1)
      if ((await remove(limits.pruneBatch)) < limits.pruneBatch) return;
  };
  if (keep.auditDays > 0) await inBatches((limit) => expired.pruneAudit(keep.auditDays, limit));
  if (keep.webhookAttemptsDays > 0)
    await inBatches((limit) => expired.pruneWebhookAttempts(keep.webhookAttemptsDays, limit));
  if (keep.personalDataDays === 0) return;
  const until = performance.now() + limits.retentionRunMs;
  for (const campaign of await expired.campaigns(keep.personalDataDays, CAMPAIGNS)) {
    if (performance.now() > until) return;
    if (await deps.isArchived(campaign.productId)) await removeUsers(deps, campaign, until);
  }
}

/** Replaces the users of a closed campaign by pseudonyms, each by one of its own. */
async function removeUsers(deps: RetentionDeps, campaign: ExpiredCampaign, until: number): Promise<void> {
  const { expired, claims, limits, log } = deps;
  const run: ErasureRun = { proceed: () => {}, count: async () => {} };
  for (let at = campaign; performance.now() < until; ) {
    const { users, upTo } = await expired.users(at, limits.retentionUsers);
    for (const user of users) {
      try {
        const pseudonym = newPseudonym();
        await claims.erase({ user, pseudonym }, [campaign], run);
        await expired.eraseFromCodes(campaign.id, user, pseudonym);
      } catch (error) {
        if (!(error instanceof StillActive)) throw error;
        log.warn({ campaign: campaign.productId }, 'a closed campaign has a unit that is held; its users stay for now');
        return;
      }
    }
    await expired.advance(campaign.id, upTo);
    if (upTo === null) {
      log.info({ campaign: campaign.productId }, 'the users of a closed campaign were replaced by pseudonyms');
      return;
    }
    at = { ...at, cursor: upTo };
  }
}
