import { LIMITS } from '../../shared/config/limits.js';
import type { RegionsConfig } from '../../shared/config/regions.js';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { Code } from '../../shared/domain/codes.js';
import { ownerOfCode, type RegionName } from '../../shared/domain/regions.js';
import { CampaignsTable, type StoredCampaign } from '../../shared/postgres/campaigns.js';
import { CodeJobs } from '../../shared/postgres/code-jobs.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { CodeNotifications } from '../../shared/redis/code-notifications.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { Core } from '../core.js';
import { type IssueDeps, issueCodes, resumeLeftJobs } from './issue-codes.js';

export type CodeIssuing = { issue: (jobId: string) => Promise<void>; resumeLeft: () => Promise<void> };

/** The other region that owns a code; null = none does. */
function otherRegionOf(code: Code, regions: RegionsConfig | null): RegionName | null {
  if (!regions) return null;
  const owner = ownerOfCode(code, regions.layout);
  return owner === regions.own ? null : owner;
}

/**
 * Makes new codes known to every bucket. A bucket that is away learns of them by the schedule.
 * @throws EngineUnavailable
 */
async function addCodes(sales: Sales, { productId, codes, buckets }: StoredCampaign): Promise<void> {
  const results = await Promise.allSettled(
    sales.all(productId).map((store) => store.campaigns.addCodes(productId, codes, buckets)),
  );
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

/** Generates and imports codes, and adds the issued ones to their campaign in Redis. */
export function codesModule({ config, database, shards, sales, queues, metrics, log }: Core): CodeIssuing {
  const campaigns = new CampaignsTable(database);
  const deps: IssueDeps = {
    database,
    jobs: new CodeJobs(database),
    codes: new CodesTable(database),
    news: new CodeNotifications(shards.home.commands, LIMITS.codes),
    lastNoInRedis: async (campaignId) => {
      const campaign = await campaigns.find(campaignId);
      if (!campaign) return 0;
      const { commands } = shards.of(campaign.productId, FIRST_BUCKET);
      return (await new SaleCopy(commands).campaign(campaign.productId))?.codes ?? 0;
    },
    issued: async (campaignId) => {
      const campaign = await campaigns.find(campaignId);
      if (!campaign) return;
      await addCodes(sales, campaign);
      const { productId } = campaign;
      await queues.add('promote', { productId }, shards.map.shardOf(productId, FIRST_BUCKET));
    },
    again: (jobId) => queues.add('codes', { jobId }),
    otherRegionOf: (code) => otherRegionOf(code, config.regions),
    metrics,
    log,
    limits: LIMITS.codes,
  };
  return { issue: (jobId) => issueCodes(jobId, deps), resumeLeft: () => resumeLeftJobs(deps) };
}
