import { LIMITS } from '../shared/config/limits.js';
import type { QueueName, SweepName } from '../shared/contracts/jobs.js';
import { FIRST_BUCKET } from '../shared/domain/buckets.js';
import type { ProductId } from '../shared/domain/ids.js';
import { NEEDS_ACTION } from '../shared/payments/payment-event.js';
import { BansTable } from '../shared/postgres/bans.js';
import { CampaignsTable } from '../shared/postgres/campaigns.js';
import { PaymentEventsTable } from '../shared/postgres/payment-events.js';
import { PushSubscriptions } from '../shared/postgres/push-subscriptions.js';
import { RedemptionAttempts } from '../shared/postgres/redemption-attempts.js';
import { RegionAcknowledgements } from '../shared/postgres/region-acknowledgements.js';
import { RegionTransfers } from '../shared/postgres/region-transfers.js';
import { SaleMinutes } from '../shared/postgres/sale-minutes.js';
import type { Processor } from '../shared/queues/job-worker.js';
import { SaleCopy } from '../shared/sale/sale-copy.js';
import type { Archiving } from './archive/archive.module.js';
import { claimErasureOf } from './claim-erasure.js';
import type { CodeIssuing } from './codes/codes.module.js';
import type { Core, WorkerShard } from './core.js';
import { eraseUsers } from './erasures/erasures.module.js';
import type { Expiring } from './expire/expire.module.js';
import { forgetAttempts, forgetRuleBans } from './forget-attempts/forget-attempts.js';
import { forgetRegions } from './forget-regions/forget-regions.js';
import type { Persisting } from './persist/persist.module.js';
import { promoteWaiting } from './promote/promote.js';
import type { Events } from './publish-outbox/publish-outbox.module.js';
import type { Reconciling } from './reconcile/reconcile.module.js';
import type { Refilling } from './recovery/recovery.module.js';
import { type RetentionDeps, removeExpired } from './retention/retention.js';
import { retentionOf } from './retention/retention.module.js';
import { retryPayments } from './retry-payments/retry-payments.module.js';
import { fillSaleMinutes } from './sale-minutes/fill-sale-minutes.js';
import { keepSchedule } from './schedule/schedule.js';
import type { Sweep, Sweeps } from './sweeps/sweeps.js';

export type Processors = { [Name in QueueName]: { concurrency: number; run: Processor<Name> } };

export type SweepsDeps = {
  reconcile: Reconciling;
  events: Events;
  codes: CodeIssuing;
  archive: Archiving;
  refilling: Refilling;
  /** null = Web Push is not set up */
  push: (() => Promise<void>) | null;
};
export type ProcessorsDeps = Pick<SweepsDeps, 'reconcile' | 'events' | 'codes'> & {
  /** By shard. */
  persisting: readonly Persisting[];
  expiring: readonly Expiring[];
  sweeps: Sweeps;
};

/**
 * For each queue: the function that processes its jobs, and how many jobs of it one worker processes at once. A queue
 * without an entry does not compile.
 */
export function createProcessors(
  { sales, metrics, log }: Core,
  { persisting, expiring, reconcile, events, codes, sweeps }: ProcessorsDeps,
): Processors {
  return {
    persist: { concurrency: 1, run: ({ shard }, job) => at(persisting, shard).drain.run(job) },
    expire: { concurrency: 1, run: ({ shard, products }) => at(expiring, shard).run(products as ProductId[]) },
    promote: {
      concurrency: 4,
      run: ({ productId }) => {
        const product = productId as ProductId;
        return promoteWaiting(sales.of(product, FIRST_BUCKET), metrics, log, product, LIMITS.line);
      },
    },
    // A place for each endpoint that may exist, so that slow receivers do not delay the others. Waiting costs nothing.
    deliver: { concurrency: LIMITS.webhooks.endpoints, run: ({ endpointId }) => events.deliver(endpointId) },
    // Two, so that a small job does not wait for a long job.
    codes: { concurrency: 2, run: ({ jobId }) => codes.issue(jobId) },
    reconcile: { concurrency: 1, run: ({ productId }, { id }) => reconcile.one(productId, id) },
    // Each sweep is one job.
    sweeps: { concurrency: sweeps.names.length, run: ({ sweep }, job) => sweeps.run(sweep, job) },
  };
}

function at<One>(all: readonly One[], shard: number): One {
  const one = all[shard];
  if (one === undefined) throw new RangeError(`there is no shard ${shard}`);
  return one;
}

/**
 * For each sweep: its interval, and the function of one run. A sweep without an entry does not compile. A sweep over
 * campaigns goes through the shards that are in service.
 */
export function createSweeps(
  core: Core,
  { reconcile, events, codes, archive, refilling, push }: SweepsDeps,
): { readonly [Name in SweepName]: Sweep | null } {
  const { log, shards } = core;
  const erasure = claimErasureOf(core);
  const inEach = (run: (shard: WorkerShard) => Promise<void>) => () => inEachShard(shards.all, run);
  return {
    schedule: { everyMs: LIMITS.jobs.scheduleEveryMs, run: createSchedule(core, refilling) },
    publish: { everyMs: LIMITS.events.publishEveryMs, run: () => events.publisher.sweep() },
    codes: { everyMs: LIMITS.codes.leftEveryMs, run: () => codes.resumeLeft() },
    archive: { everyMs: LIMITS.archive.everyMs, run: inEach(({ index }) => archive.runOf(index)) },
    reconcile: { everyMs: LIMITS.jobs.reconcileEveryMs, run: () => reconcile.all() },
    prune: { everyMs: LIMITS.retention.pruneEveryMs, run: () => prune(core, events, archive, erasure.claims) },
    minutes: { everyMs: LIMITS.jobs.minutesEveryMs, run: () => fillMinutes(core, log) },
    payments: { everyMs: LIMITS.payments.everyMs, run: retryPayments(core) },
    erasures: { everyMs: LIMITS.erasures.everyMs, run: eraseUsers(core, erasure) },
    push: push && { everyMs: LIMITS.push.everyMs, run: push },
  };
}

/** Reads the campaigns once for all shards. */
function createSchedule({ database, sales, shards }: Core, { preheat }: Refilling): () => Promise<void> {
  const campaigns = new CampaignsTable(database);
  const copies = shards.all.map(({ commands }) => new SaleCopy(commands));
  return async () => {
    const live = await campaigns.live();
    // After the rows: if Postgres was set back, they do not say where campaigns are.
    if (shards.all.length > 1) await shards.map.read(database);
    await inEachShard(shards.all, ({ index, sale, has, isHere, clock, log }) =>
      keepSchedule({
        copy: at(copies, index),
        ...{ sale, campaigns, live, isHere, log, limits: LIMITS.jobs },
        divided: () => [...shards.map.divided.keys()].filter(has),
        homeOf: (product) => sales.of(product, FIRST_BUCKET),
        nowMs: clock.nowMs(),
        preheat: (one) => preheat(one, index),
      }),
    );
  };
}

/** Runs in all shards that are in service. @throws the first error, after all have ended */
async function inEachShard(shards: readonly WorkerShard[], run: (shard: WorkerShard) => Promise<void>): Promise<void> {
  const results = await Promise.allSettled(shards.filter(({ gate }) => gate.isOpen).map(run));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

async function prune(core: Core, events: Events, archive: Archiving, claims: RetentionDeps['claims']): Promise<void> {
  const { config, database, clock } = core;
  await events.prune();
  await archive.prune();
  await forgetAttempts(new RedemptionAttempts(database), config.attemptsKeepDays, clock.nowMs(), LIMITS.retention);
  await forgetRuleBans(new BansTable(database), clock.nowMs(), LIMITS.retention);
  await new PaymentEventsTable(database).prune(
    config.retention.paymentEventsDays * 86_400_000,
    LIMITS.payments.unknownDays * 86_400_000,
    // The money of one that was refunded before is back.
    NEEDS_ACTION.filter((outcome) => outcome !== 'refunded_before'),
    LIMITS.payments.eventsBatch,
  );
  if (config.regions !== null)
    await forgetRegions(new RegionAcknowledgements(database), new RegionTransfers(database), {
      ...LIMITS.retention,
      ...LIMITS.regions,
    });
  await new PushSubscriptions(database).prune(LIMITS.push.settleMs, LIMITS.push.keepMs, LIMITS.retention.pruneBatch);
  await removeExpired(retentionOf(core, claims));
}

async function fillMinutes({ shards, database }: Core, log: Core['log']): Promise<void> {
  const { cursor } = shards.home;
  await fillSaleMinutes({
    minutes: new SaleMinutes(database),
    lock: async (client) => {
      await cursor.lock(client);
      await cursor.lockWrites(client);
    },
    log,
    limits: LIMITS.jobs,
  });
}
