import { LIMITS } from '../shared/config/limits.js';
import type { HomeSweepName, QueueName, ShardSweepName } from '../shared/contracts/jobs.js';
import { FIRST_BUCKET } from '../shared/domain/buckets.js';
import type { ProductId } from '../shared/domain/ids.js';
import { BansTable } from '../shared/postgres/bans.js';
import { CampaignPolicies } from '../shared/postgres/campaign-policies.js';
import { CampaignsTable } from '../shared/postgres/campaigns.js';
import { PaymentEventsTable } from '../shared/postgres/payment-events.js';
import { PushSubscriptions } from '../shared/postgres/push-subscriptions.js';
import { RedemptionAttempts } from '../shared/postgres/redemption-attempts.js';
import { SaleMinutes } from '../shared/postgres/sale-minutes.js';
import { JournalCursor } from '../shared/projection/journal-cursor.js';
import type { Processor } from '../shared/queues/queues.js';
import { ActiveCampaigns } from '../shared/sale/active-campaigns.js';
import { SaleCopy } from '../shared/sale/sale-copy.js';
import { VelocityStore } from '../shared/sale/velocity-store.js';
import type { Archiving } from './archive/archive.module.js';
import type { CodeIssuing } from './codes/codes.module.js';
import type { Core, WorkerShard } from './core.js';
import { expireOverdue } from './expire/expire.js';
import { forgetAttempts, forgetRuleBans } from './forget-attempts/forget-attempts.js';
import { maintainLines } from './maintain-line/maintain-line.js';
import { promoteWaiting } from './promote/promote.js';
import type { Events } from './publish-outbox/publish-outbox.module.js';
import type { Refilling } from './recovery/recovery.module.js';
import { removeExpired } from './retention/retention.js';
import { retentionOf } from './retention/retention.module.js';
import { fillSaleMinutes } from './sale-minutes/fill-sale-minutes.js';
import { keepSchedule, type TermsAhead } from './schedule/schedule.js';
import type { Sweep } from './sweeps/sweeps.js';
import { watchVelocity } from './velocity/watch-velocity.js';

export type Processors = { [Name in QueueName]: { concurrency: number; run: Processor<Name> } };

export type ProcessorsDeps = { reconcile: Processor<'reconcile'>; events: Events; codes: CodeIssuing };
export type SweepsDeps = ProcessorsDeps & { archive: Archiving; refilling: Refilling };

/**
 * For each queue: the function that processes its jobs, and how many jobs one worker processes at once. A queue without
 * an entry does not compile.
 */
export function createProcessors(
  { sales, metrics, log }: Core,
  { reconcile, events, codes }: ProcessorsDeps,
): Processors {
  return {
    promote: {
      concurrency: 4,
      run: ({ productId }) =>
        promoteWaiting(sales.of(productId as ProductId, FIRST_BUCKET), metrics, log, productId as ProductId, LIMITS),
    },
    reconcile: { concurrency: 1, run: reconcile },
    // Endpoints do not wait for each other. An endpoint that hangs occupies one of the eight places until the delivery
    // times out.
    deliver: { concurrency: 8, run: ({ endpointId }) => events.deliver(endpointId) },
    // Two, so that a small job does not wait for a long job.
    codes: { concurrency: 2, run: ({ jobId }) => (jobId ? codes.issue(jobId) : codes.resumeLeft()) },
  };
}

/**
 * For each sweep over the campaigns of a shard: its interval, and the function of one run. A sweep without an entry
 * does not compile.
 */
export function createShardSweeps(
  { database, metrics, sales, shards }: Core,
  { index, sale, commands, clock, has, log }: WorkerShard,
  { archive, refilling: { preheat } }: SweepsDeps,
): { [Name in ShardSweepName]: Sweep } {
  const active = new ActiveCampaigns(sale.reader, commands, clock, has);
  const [copy, campaigns] = [new SaleCopy(commands), new CampaignsTable(database)];
  const ahead: TermsAhead = new Map();
  const velocity = {
    store: new VelocityStore(commands),
    policies: new CampaignPolicies(database),
    ...{ sales, metrics, log, limits: LIMITS },
  };
  return {
    expire: {
      everyMs: LIMITS.sweepEveryMs,
      run: async () => expireOverdue(sale, metrics, log, LIMITS, await active.dueOrWaiting()),
    },
    tend: {
      everyMs: LIMITS.tendEveryMs,
      run: async () => maintainLines(sale, metrics, log, LIMITS, await active.waiting()),
    },
    schedule: {
      everyMs: LIMITS.scheduleEveryMs,
      run: () =>
        keepSchedule({
          sale,
          copy,
          campaigns,
          has,
          divided: () => shards.map.divided.keys(),
          log,
          nowMs: clock.nowMs(),
          limits: LIMITS,
          preheat: (one) => preheat(one, index),
          ahead,
        }),
    },
    velocity: { everyMs: LIMITS.velocityEveryMs, run: () => watchVelocity(clock.nowMs(), velocity) },
    archive: { everyMs: LIMITS.archiveEveryMs, run: () => archive.runOf(index) },
  };
}

/** The same for each sweep over what belongs to no shard. */
export function createHomeSweeps(
  core: Core,
  { reconcile, events, codes, archive }: SweepsDeps,
): { [Name in HomeSweepName]: Sweep } {
  return {
    publish: { everyMs: LIMITS.publishEveryMs, run: () => events.publisher.sweep() },
    codes: { everyMs: LIMITS.codeLeftEveryMs, run: () => codes.resumeLeft() },
    reconcile: { everyMs: LIMITS.reconcileEveryMs, run: () => reconcile({}) },
    prune: { everyMs: LIMITS.pruneEveryMs, run: () => prune(core, events, archive) },
    minutes: { everyMs: LIMITS.minutesEveryMs, run: () => fillMinutes(core) },
  };
}

async function prune(core: Core, events: Events, archive: Archiving): Promise<void> {
  const { config, database, queues } = core;
  await events.prune();
  await archive.prune();
  await forgetAttempts(new RedemptionAttempts(database), config.attemptsKeepDays, LIMITS);
  await forgetRuleBans(new BansTable(database), LIMITS);
  await new PaymentEventsTable(database).prune(
    config.retention.paymentEventsDays * 86_400_000,
    LIMITS.paymentEventsBatch,
  );
  await new PushSubscriptions(database).prune(LIMITS.pushSettleMs, LIMITS.pushKeepMs, LIMITS.pruneBatch);
  await queues.removeIntervals();
  await removeExpired(retentionOf(core));
}

async function fillMinutes({ config, database, log }: Core): Promise<void> {
  const cursor = new JournalCursor(database, 0, config.shards > 1);
  await fillSaleMinutes({
    minutes: new SaleMinutes(database),
    lock: async (client) => {
      await cursor.lock(client);
      await cursor.lockWrites(client);
    },
    log,
    limits: LIMITS,
  });
}
