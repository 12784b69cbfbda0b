import type { Reconciliation } from '../../shared/contracts/reconciliation.js';
import type { Difference, Verdict } from '../../shared/contracts/verdict.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { isMissingPlace, lacksRestock } from '../../shared/image/compare.js';
import { archivedOf, compareCampaign, headsDiffer, type ImageDeps } from '../../shared/image/compare-campaign.js';
import { Uncovered } from '../../shared/image/journal-tail.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import { driftedEvent } from '../../shared/projection/events-of-entries.js';
import { insertEvents } from '../../shared/projection/new-events.js';
import { LOST } from '../../shared/sale/recall.js';
import { type WriteDeps, writeLacking } from './write-lacking.js';

/** How long Redis may need until it is in service again after a campaign was filled, and how often that is checked. */
const BACK_IN_SERVICE_MS = 10_000;
const LOOK_AGAIN_MS = 50;
const COMMAND = 'npm run reconcile -- --after-restore';

export type ReconcileDeps = ImageDeps &
  WriteDeps & {
    metrics: Metrics;
    /** Fills this campaign from Postgres. Redis is out of service for that moment, for all campaigns. */
    refill: (campaign: StoredCampaign, reason: string) => Promise<void>;
    campaigns: Pick<CampaignsTable, 'acceptLoss'>;
  };

/**
 * Compares a campaign unit by unit, repairs the differences that are provably safe to repair, and compares again.
 *
 * One repair is safe at any time: Postgres gets what it lacks at a position of the journal, be it a reservation, a
 * later state of one, or units that one gave back (write-lacking.ts). Rows that only Postgres has, and wrong counters,
 * are repaired by filling the campaign from Postgres. During that, all requests get 503 for a moment, so only an
 * operator asks for it (`refill`).
 *
 * The records of an archived campaign are in Postgres alone. If some were lost there, the operator's call decides that
 * those that are left count, and Redis is filled with them.
 *
 * After Postgres was set back, neither is safe. If it lacks a restock, it has no room for reservations. If it lacks a
 * promise, filling Redis from Postgres would remove the promise. Both are left to the command
 * `npm run reconcile -- --after-restore`, which writes the data of Redis in the right order.
 */
export async function reconcileCampaign(
  deps: ReconcileDeps,
  campaign: StoredCampaign,
  options: { refill: boolean },
): Promise<Reconciliation> {
  const before = await compareCampaign(deps, campaign);
  const setBack = lacksRestock(before.differences);
  const written = setBack ? 0 : await writeLacking(deps, deps.parts, campaign.productId, before.differences);
  let after = written > 0 ? await compareAgain(deps, campaign) : before;
  let refilled = false;
  const lacksPromise = setBack || after.lost > 0 || after.differences.some(isMissingPlace);
  // Of an archived campaign Redis has no promise that filling it could remove.
  const archived = await archivedOf(deps, campaign);
  const isArchived = archived.every((one) => one !== null);
  const hasLost = campaign.recordsLost || archived.some((one) => one?.pass === LOST);
  const mayRefill = isArchived && !setBack ? hasLost || after.lost + after.drift > 0 : after.drift > 0 && !lacksPromise;
  if (options.refill && mayRefill) {
    if (campaign.recordsLost) await deps.campaigns.acceptLoss(campaign.id);
    await deps.refill(campaign, `reconciliation of ${campaign.productId}`);
    refilled = true;
    after = await compareAgain(deps, campaign);
  }
  report(deps, campaign, before.differences, after.differences, { written, refilled });
  if (setBack) deps.log.error({ campaign: campaign.productId }, `Postgres lacks a restock; run ${COMMAND}`);
  else if (lacksPromise) deps.log.error({ campaign: campaign.productId }, `Postgres lacks a promise; run ${COMMAND}`);
  if (after.differences.length > 0 || after.over_cap > 0) await alert(deps, campaign, after);
  const { differences: found, ...verdict } = before;
  return { ...after, before: { ...verdict, differences: found }, repaired: { written, refilled } };
}

/**
 * Compares again after a repair, and waits while Redis is out of service. Filling a campaign causes that for a moment,
 * for this worker too. If the job failed here, its retry would find no difference and report that there was none.
 */
async function compareAgain(deps: ReconcileDeps, campaign: StoredCampaign): Promise<Verdict> {
  const giveUpAt = performance.now() + BACK_IN_SERVICE_MS;
  for (;;) {
    try {
      return await compareCampaign(deps, campaign);
    } catch (error) {
      if (!(error instanceof EngineUnavailable) || performance.now() > giveUpAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
  }
}

/**
 * The scheduled comparison of all live campaigns. It compares total, units by state, number of waiting users and
 * status, with two reads for each campaign. If they differ, it compares every unit and every place in line.
 */
export async function reconcileAll(
  depsOf: (campaign: StoredCampaign) => ReconcileDeps,
  campaigns: Pick<CampaignsTable, 'live'>,
  metrics: Metrics,
): Promise<void> {
  let drift = 0;
  for (const campaign of await campaigns.live()) {
    const deps = depsOf(campaign);
    try {
      if (!(await headsDiffer(deps, campaign))) continue;
      drift += (await reconcileCampaign(deps, campaign, { refill: false })).drift;
    } catch (error) {
      // The shard of this campaign is away, or not known, or its Postgres was set back. The persister reports that. The
      // other campaigns are compared all the same.
      if (!(error instanceof EngineUnavailable || error instanceof Uncovered)) throw error;
    }
  }
  metrics.drift.set(drift);
}

/** Writes an event about differences that only an operator can resolve. */
async function alert({ database, parts }: ReconcileDeps, campaign: StoredCampaign, verdict: Verdict): Promise<void> {
  const [home] = parts;
  await database.transaction(async (client) => {
    // Every writer of events holds this lock, so that the order of events is the order of commits.
    await home?.cursor.lock(client);
    await home?.cursor.lockWrites(client);
    await insertEvents(client, [driftedEvent(campaign.no, campaign.id, verdict)]);
  });
}

function report(
  { metrics, log }: ReconcileDeps,
  campaign: StoredCampaign,
  before: readonly Difference[],
  after: readonly Difference[],
  repaired: { written: number; refilled: boolean },
): void {
  for (const { side } of before) metrics.differences.inc({ side });
  for (const difference of after)
    log.error({ campaign: campaign.productId, ...difference }, 'Redis and Postgres differ');
  if (before.length > 0) {
    log.warn(
      { campaign: campaign.productId, found: before.length, left: after.length, ...repaired },
      'a campaign was reconciled',
    );
  }
}
