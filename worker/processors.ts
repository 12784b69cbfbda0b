import type { QueueName } from '../shared/contracts/jobs.js';
import type { ProductId } from '../shared/domain/ids.js';
import type { Log } from '../shared/observability/log.js';
import type { Metrics } from '../shared/observability/metrics.js';
import type { BansTable } from '../shared/postgres/bans.js';
import type { CampaignsTable, StoredCampaign } from '../shared/postgres/campaigns.js';
import type { RedemptionAttempts } from '../shared/postgres/redemption-attempts.js';
import type { RememberedAnswers } from '../shared/postgres/remembered-answers.js';
import type { Processor } from '../shared/queues/queues.js';
import type { RedisClock } from '../shared/redis/redis-clock.js';
import type { SaleStore } from '../shared/redis/sale-store.js';
import type { ArchiveClosed } from './archive/archive-closed.js';
import { type IssueParts, issueCodes, resumeLeftJobs } from './codes/issue-codes.js';
import { expireOverdue } from './expire/expire.js';
import { forgetAttempts, forgetRuleBans } from './forget-attempts/forget-attempts.js';
import { promoteWaiting } from './promote/promote.js';
import { type DeliverParts, deliverTo } from './publish-outbox/deliver.js';
import { type PublishParts, pruneOutbox, publishOutbox } from './publish-outbox/publish.js';
import { keepSchedule, type TermsAhead } from './schedule/schedule.js';
import { tendLines } from './tend-line/tend-line.js';
import { type VelocityParts, watchVelocity } from './velocity/watch-velocity.js';

export type ProcessorParts = {
  sale: SaleStore;
  campaigns: CampaignsTable;
  clock: RedisClock;
  preheat: (campaign: StoredCampaign) => Promise<void>;
  reconcile: Processor<'reconcile'>;
  publish: PublishParts;
  deliver: DeliverParts;
  remembered: RememberedAnswers;
  issue: IssueParts;
  attempts: { table: RedemptionAttempts; keepDays: number };
  bans: BansTable;
  velocity: VelocityParts;
  archive: ArchiveClosed;
  metrics: Metrics;
  log: Log;
  limits: { sweepBatch: number; promoteBatch: number; preheatMs: number; idempotencyTtlMs: number } & Parameters<
    typeof pruneOutbox
  >[2] &
    Parameters<typeof forgetAttempts>[2] &
    Parameters<typeof forgetRuleBans>[1] &
    Parameters<typeof tendLines>[3];
};

/** Queue → what does its jobs, and how many at once in one worker. A queue without an entry does not compile. */
export function createProcessors({
  sale,
  campaigns,
  clock,
  preheat,
  reconcile,
  publish,
  deliver,
  remembered,
  issue,
  attempts,
  bans,
  velocity,
  archive,
  metrics,
  log,
  limits,
}: ProcessorParts) {
  const ahead: TermsAhead = new Map();
  return {
    expire: { concurrency: 1, run: () => expireOverdue(sale, metrics, log, limits) },
    tend: { concurrency: 1, run: () => tendLines(sale, metrics, log, limits) },
    promote: {
      concurrency: 4,
      run: ({ productId }) => promoteWaiting(sale, metrics, log, productId as ProductId, limits),
    },
    schedule: {
      concurrency: 1,
      run: () => keepSchedule(sale, campaigns, log, clock.nowMs(), limits, preheat, ahead),
    },
    reconcile: { concurrency: 1, run: reconcile },
    // One at a time: the stream takes events in their order.
    publish: { concurrency: 1, run: () => publishOutbox(publish) },
    // Endpoints do not wait for each other; one that hangs takes a place for the time limit of a delivery.
    deliver: { concurrency: 8, run: ({ endpointId }) => deliverTo(endpointId, deliver) },
    prune: {
      concurrency: 1,
      run: async () => {
        await pruneOutbox(publish.outbox, publish.stream, limits);
        await remembered.prune(limits.idempotencyTtlMs, limits.pruneBatch);
        await forgetAttempts(attempts.table, attempts.keepDays, limits);
        await forgetRuleBans(bans, limits);
      },
    },
    // Two, so that a small job does not wait for a long one.
    codes: { concurrency: 2, run: ({ jobId }) => (jobId ? issueCodes(jobId, issue) : resumeLeftJobs(issue)) },
    velocity: { concurrency: 1, run: () => watchVelocity(clock.nowMs(), velocity) },
    archive: { concurrency: 1, run: () => archive.run() },
  } satisfies { [Name in QueueName]: { concurrency: number; run: Processor<Name> } };
}
