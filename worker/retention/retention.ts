import { type ClaimErasure, type ErasureRun, StillActive } from '../../shared/archive/claim-erasure.js';
import type { RetentionConfig } from '../../shared/config/retention.js';
import type { CampaignId, ProductId, UserId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import { isPseudonym, newPseudonym } from '../../shared/postgres/erasures.js';
import type { EventStream } from '../../shared/redis/event-stream.js';
import type { ExpiredCampaign, ExpiredData } from './expired-data.js';

/** Campaigns that one run looks at. */
const CAMPAIGNS = 20;
const EVENTS_AT_ONCE = 500;

export type RetentionDeps = {
  keep: RetentionConfig;
  expired: ExpiredData;
  claims: ClaimErasure;
  stream: EventStream;
  /** The number of the last event in Postgres; 0 = none. */
  lastEvent: () => Promise<number>;
  /** Whether Redis has archived a campaign, in every bucket. */
  isArchived: (product: ProductId) => Promise<boolean>;
  log: Log;
  limits: {
    pruneBatch: number;
    pruneBatches: number;
    users: number;
    runMs: number;
    publishWaitMs: number;
  };
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
  const until = performance.now() + limits.runMs;
  const replaced: ExpiredCampaign[] = [];
  for (const campaign of await expired.campaigns(keep.personalDataDays, CAMPAIGNS)) {
    if (performance.now() > until) break;
    if ((await deps.isArchived(campaign.productId)) && (await removeUsers(deps, campaign, until)))
      replaced.push(campaign);
  }
  if (replaced.length > 0) await finish(deps, replaced);
}

/**
 * Removes the events of the users from the stream, for all these campaigns with one read of the stream, which has a
 * bounded length. If that fails, the next run repeats it, because the campaigns are not finished yet.
 */
async function finish(deps: RetentionDeps, campaigns: readonly ExpiredCampaign[]): Promise<void> {
  const { expired, stream, lastEvent, limits, log } = deps;
  // Events that were written before may have the users, and are removed once they are in the stream.
  if (!(await stream.reaches(await lastEvent(), limits.publishWaitMs))) return;
  const ids = campaigns.map(({ id }) => id);
  await stream.remove(({ json }) => hasUserOf(ids, json), EVENTS_AT_ONCE);
  for (const { id, productId } of campaigns) {
    await expired.advance(id, null);
    log.info({ campaign: productId }, 'the users of a closed campaign were replaced by pseudonyms');
  }
}

/** Whether an event has a user of one of these campaigns. @param json the CloudEvent */
function hasUserOf(campaigns: readonly CampaignId[], json: string): boolean {
  // Spares parsing most events.
  if (!campaigns.some((id) => json.includes(id))) return false;
  const { data } = JSON.parse(json) as { data: { campaign_id?: CampaignId } & Record<string, unknown> };
  const users = [data.user_id, data.rejected_user_id].filter((user) => typeof user === 'string');
  return (
    data.campaign_id !== undefined &&
    campaigns.includes(data.campaign_id) &&
    users.some((user) => !isPseudonym(user as UserId))
  );
}

/**
 * Replaces the users of a closed campaign by pseudonyms, each by one of its own.
 * @returns whether all were replaced
 */
async function removeUsers(deps: RetentionDeps, campaign: ExpiredCampaign, until: number): Promise<boolean> {
  const { expired, claims, limits, log } = deps;
  const run: ErasureRun = { proceed: () => {}, changed: async () => {} };
  for (let at = campaign; performance.now() < until; ) {
    const { users, upTo } = await expired.users(at, limits.users);
    for (const user of users) {
      try {
        const pseudonym = newPseudonym();
        await claims.erase({ user, pseudonym }, [campaign], run);
        await expired.eraseFromCodes(campaign.id, user, pseudonym);
      } catch (error) {
        if (!(error instanceof StillActive)) throw error;
        log.warn({ campaign: campaign.productId }, 'a closed campaign has a unit that is held; its users stay for now');
        return false;
      }
    }
    if (upTo === null) return true;
    await expired.advance(campaign.id, upTo);
    at = { ...at, cursor: upTo };
  }
  return false;
}
