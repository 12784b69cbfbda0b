import type { Reconciliation } from '../../shared/contracts/reconciliation.js';
import type { Difference, Verdict } from '../../shared/contracts/verdict.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { compareLedger, type LedgerDeps, lacksRestock, sameStock, settle } from '../../shared/ledger/compare.js';
import { isMissingPlace, isPlace } from '../../shared/ledger/compare-lines.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import { driftedEvent } from '../../shared/projection/events-of-entries.js';
import { insertEvents } from '../../shared/projection/new-events.js';
import type { Reservations } from '../../shared/sale/reservations.js';

/** How long it may take until a campaign that was filled is in service again, and how often that is tried. */
const BACK_IN_SERVICE_MS = 10_000;
const LOOK_AGAIN_MS = 50;
const COMMAND = 'npm run reconcile -- --after-restore';

export type ReconcileDeps = LedgerDeps & {
  reservations: Pick<Reservations, 'rejournal'>;
  campaigns: CampaignsTable;
  database: Database;
  metrics: Metrics;
  log: Log;
  settleMs: number;
  /** Takes everybody out of service for a moment and fills this campaign from Postgres. */
  refill: (campaign: StoredCampaign, reason: string) => Promise<void>;
};

/**
 * Compares a campaign unit by unit, repairs what is provably safe, and compares again.
 *
 * Safe at any time: a reservation that is in Redis and never reached Postgres is journaled again, and Postgres accepts or
 * refuses it; a reservation that ended in Redis while Postgres still has it reserved is ended there, since one leaves
 * `reserved` only by a real event. What Postgres has and Redis does not, and wrong counters, are repaired by filling the
 * campaign from Postgres. That costs everybody a moment of 503, so only an operator asks for it (`refill`).
 *
 * Not safe after Postgres was set back: where it lacks a restock, it would void the reservations that are journaled
 * again; where it lacks a promise, filling from it would remove the promise. Both are left to the command
 * `npm run reconcile -- --after-restore`, which writes what Redis has in the right order.
 */
export async function reconcileCampaign(
  deps: ReconcileDeps,
  campaign: StoredCampaign,
  options: { refill: boolean },
): Promise<Reconciliation> {
  const before = await compareLedger(deps, campaign, deps.settleMs);
  const setBack = lacksRestock(before.differences);
  const journaled = setBack ? 0 : await journalAgain(deps, campaign.productId, before.differences);
  let after = journaled > 0 ? await compareAgain(deps, campaign) : before;
  let refilled = false;
  const lacksPromise = setBack || after.lost > 0 || after.differences.some(isMissingPlace);
  if (options.refill && after.drift > 0 && !lacksPromise) {
    await deps.refill(campaign, `reconciliation of ${campaign.productId}`);
    refilled = true;
    after = await compareAgain(deps, campaign);
  }
  report(deps, campaign, before.differences, after.differences, { journaled, refilled });
  if (setBack) deps.log.error({ campaign: campaign.productId }, `Postgres lacks a restock; run ${COMMAND}`);
  else if (lacksPromise) deps.log.error({ campaign: campaign.productId }, `Postgres lacks a promise; run ${COMMAND}`);
  if (after.differences.length > 0 || after.over_cap > 0) await alert(deps, campaign, after);
  const { differences: found, ...verdict } = before;
  return { ...after, before: { ...verdict, differences: found }, repaired: { journaled, refilled } };
}

/**
 * After a repair. Filling a campaign takes Redis out of service for a moment, also for this worker: to give up then would make
 * the next attempt find nothing and say that there was nothing.
 */
async function compareAgain(deps: ReconcileDeps, campaign: StoredCampaign): Promise<Verdict> {
  const giveUpAt = performance.now() + BACK_IN_SERVICE_MS;
  for (;;) {
    try {
      return await compareLedger(deps, campaign, deps.settleMs);
    } catch (error) {
      if (!(error instanceof EngineUnavailable) || performance.now() > giveUpAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
  }
}

/**
 * The scheduled comparison of all live campaigns: total, units by state, people waiting and status, which costs two reads
 * each. Only where they differ twice, with the journal empty in between, every unit and every place is compared.
 */
export async function reconcileAll(deps: ReconcileDeps, options: { refill: boolean }): Promise<void> {
  let drift = 0;
  for (const campaign of await deps.campaigns.live()) {
    if (!(await countersDiffer(deps, campaign)) || !(await countersDiffer(deps, campaign))) continue;
    drift += (await reconcileCampaign(deps, campaign, options)).drift;
  }
  deps.metrics.drift.set(drift);
}

async function countersDiffer(deps: ReconcileDeps, campaign: StoredCampaign): Promise<boolean> {
  await settle(deps, deps.settleMs);
  const [redis, postgres] = await Promise.all([
    deps.sale.stock(campaign.productId),
    deps.redemptions.stock(campaign.id),
  ]);
  return redis !== null && !sameStock(redis, postgres);
}

async function journalAgain(
  deps: ReconcileDeps,
  product: ProductId,
  differences: readonly Difference[],
): Promise<number> {
  let entries = 0;
  for (const difference of differences) {
    const { reservation, redis, postgres } = difference;
    const behind = redis !== null && (postgres === null || postgres === 'reserved');
    if (reservation === null || !behind || isPlace(difference)) continue;
    const outcome = await deps.reservations.rejournal(product, reservation, postgres === null ? 'missing' : 'reserved');
    if (outcome.kind === 'rejournaled') entries += outcome.entries;
  }
  return entries;
}

/** An event for what only a person can decide. */
async function alert({ database, cursor }: ReconcileDeps, campaign: StoredCampaign, verdict: Verdict): Promise<void> {
  await database.transaction(async (client) => {
    // Writers of events hold it: their order is the order of commits.
    await cursor.lock(client);
    await insertEvents(client, [driftedEvent(campaign.no, campaign.id, verdict)]);
  });
}

function report(
  { metrics, log }: ReconcileDeps,
  campaign: StoredCampaign,
  before: readonly Difference[],
  after: readonly Difference[],
  repaired: { journaled: number; refilled: boolean },
): void {
  for (const { side } of before) metrics.differences.inc({ side });
  for (const difference of after) log.error({ campaign: campaign.productId, ...difference }, 'the two sides differ');
  if (before.length > 0) {
    log.warn({ campaign: campaign.productId, found: before.length, left: after.length, ...repaired }, 'reconciled');
  }
}
