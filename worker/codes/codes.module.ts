import { LIMITS } from '../../shared/config/limits.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { CodeJobs } from '../../shared/postgres/code-jobs.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { CodeNotifications } from '../../shared/redis/code-notifications.js';
import type { Core } from '../core.js';
import { type IssueDeps, issueCodes, resumeLeftJobs } from './issue-codes.js';

export type CodeIssuing = { issue: (jobId: string) => Promise<void>; resumeLeft: () => Promise<void> };

/** Generates and imports codes, and adds the issued ones to their campaign in Redis. */
export function codesModule({ database, shards, sales, queues, metrics, log }: Core): CodeIssuing {
  const campaigns = new CampaignsTable(database);
  const deps: IssueDeps = {
    database,
    jobs: new CodeJobs(database),
    codes: new CodesTable(database),
    news: new CodeNotifications(shards.home.commands, LIMITS),
    issued: async (campaignId) => {
      const campaign = await campaigns.find(campaignId);
      if (!campaign) return;
      await sales.of(campaign.productId).campaigns.addCodes(campaign.productId, campaign.codes);
      await queues.add('promote', `codes-${campaign.no}-${campaign.codes}`, { productId: campaign.productId });
    },
    again: ({ id, processed }) => queues.add('codes', `${id}-${processed}`, { jobId: id }),
    metrics,
    log,
    limits: LIMITS,
  };
  return { issue: (jobId) => issueCodes(jobId, deps), resumeLeft: () => resumeLeftJobs(deps) };
}
