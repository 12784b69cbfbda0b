import type { LIMITS } from '../shared/config/limits.js';
import type { QueueName, SweepName } from '../shared/contracts/jobs.js';
import type { ProductId } from '../shared/domain/ids.js';
import type { Log } from '../shared/observability/log.js';
import type { Metrics } from '../shared/observability/metrics.js';
import type { BansTable } from '../shared/postgres/bans.js';
import type { CampaignsTable, StoredCampaign } from '../shared/postgres/campaigns.js';
import type { RedemptionAttempts } from '../shared/postgres/redemption-attempts.js';
import type { JobQueues, Processor } from '../shared/queues/queues.js';
import type { RedisClock } from '../shared/redis/redis-clock.js';
import type { ActiveCampaigns } from '../shared/sale/active-campaigns.js';
import type { SaleCopy } from '../shared/sale/sale-copy.js';
import type { SaleStore } from '../shared/sale/sale-store.js';
import type { ArchiveClosed } from './archive/archive-closed.js';
import type { IdempotencyRows } from './archive/idempotency-rows.js';
import { type IssueDeps, issueCodes, resumeLeftJobs } from './codes/issue-codes.js';
import { expireOverdue } from './expire/expire.js';
import { forgetAttempts, forgetRuleBans } from './forget-attempts/forget-attempts.js';
import { promoteWaiting } from './promote/promote.js';
import { type DeliverDeps, deliverTo } from './publish-outbox/deliver.js';
import type { EventPublisher } from './publish-outbox/event-publisher.js';
import { type PublishDeps, pruneOutbox } from './publish-outbox/publish.js';
import { keepSchedule, type TermsAhead } from './schedule/schedule.js';
import type { Sweep } from './sweeps/sweeps.js';
import { tendLines } from './tend-line/tend-line.js';
import { type VelocityDeps, watchVelocity } from './velocity/watch-velocity.js';

export type WorkDeps = {
  sale: SaleStore;
  copy: SaleCopy;
  campaigns: CampaignsTable;
  clock: RedisClock;
  preheat: (campaign: StoredCampaign) => Promise<void>;
  reconcile: Processor<'reconcile'>;
  publish: PublishDeps;
  publisher: Pick<EventPublisher, 'sweep'>;
  queues: Pick<JobQueues, 'removeIntervals'>;
  deliver: DeliverDeps;
  remembered: IdempotencyRows;
  issue: IssueDeps;
  attempts: { table: RedemptionAttempts; keepDays: number };
  bans: BansTable;
  velocity: VelocityDeps;
  archive: ArchiveClosed;
  active: ActiveCampaigns;
  metrics: Metrics;
  log: Log;
  limits: typeof LIMITS & { idempotencyTtlMs: number };
};

/** Queue → what does its jobs, and how many at once in one worker. A queue without an entry does not compile. */
export function createProcessors({ sale, metrics, log, limits, reconcile, deliver, issue }: WorkDeps) {
  return {
    promote: {
      concurrency: 4,
      run: ({ productId }) => promoteWaiting(sale, metrics, log, productId as ProductId, limits),
    },
    reconcile: { concurrency: 1, run: reconcile },
    // Endpoints do not wait for each other; one that hangs takes a place for the time limit of a delivery.
    deliver: { concurrency: 8, run: ({ endpointId }) => deliverTo(endpointId, deliver) },
    // Two, so that a small job does not wait for a long one.
    codes: { concurrency: 2, run: ({ jobId }) => (jobId ? issueCodes(jobId, issue) : resumeLeftJobs(issue)) },
  } satisfies { [Name in QueueName]: { concurrency: number; run: Processor<Name> } };
}

/** Sweep → how often it runs, and a run of it. A sweep without an entry does not compile. */
export function createSweeps(deps: WorkDeps) {
  const { sale, copy, campaigns, clock, preheat, reconcile, publisher, publish, remembered, issue, attempts, bans } =
    deps;
  const { velocity, archive, queues, active, metrics, log, limits } = deps;
  const ahead: TermsAhead = new Map();
  return {
    expire: {
      everyMs: limits.sweepEveryMs,
      run: async () => expireOverdue(sale, metrics, log, limits, await active.dueOrWaiting()),
    },
    tend: {
      everyMs: limits.tendEveryMs,
      run: async () => tendLines(sale, metrics, log, limits, await active.waiting()),
    },
    schedule: {
      everyMs: limits.scheduleEveryMs,
      run: () => keepSchedule({ sale, copy, campaigns, log, nowMs: clock.nowMs(), limits, preheat, ahead }),
    },
    publish: { everyMs: limits.publishEveryMs, run: () => publisher.sweep() },
    codes: { everyMs: limits.codeLeftEveryMs, run: () => resumeLeftJobs(issue) },
    velocity: { everyMs: limits.velocityEveryMs, run: () => watchVelocity(clock.nowMs(), velocity) },
    archive: { everyMs: limits.archiveEveryMs, run: () => archive.run() },
    reconcile: { everyMs: limits.reconcileEveryMs, run: () => reconcile({}) },
    prune: {
      everyMs: limits.pruneEveryMs,
      run: async () => {
        await pruneOutbox(publish.outbox, publish.stream, limits);
        await remembered.prune(limits.idempotencyTtlMs, limits.pruneBatch);
        await forgetAttempts(attempts.table, attempts.keepDays, limits);
        await forgetRuleBans(bans, limits);
        await queues.removeIntervals();
      },
    },
  } satisfies { [Name in SweepName]: Sweep };
}
