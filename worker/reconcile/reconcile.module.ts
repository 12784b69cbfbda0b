import { LIMITS } from '../../shared/config/limits.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import type { Processor } from '../../shared/queues/queues.js';
import { JobResults } from '../../shared/redis/job-results.js';
import type { Core, WorkerShard } from '../core.js';
import { type ReconcileDeps, reconcileAll, reconcileCampaign } from './reconcile.js';

/** Compares Redis and Postgres: one campaign, whose result an operator may wait for, or all campaigns. */
export function reconcileModule(
  { shards, database, metrics, log }: Core,
  { refill }: Pick<ReconcileDeps, 'refill'>,
): Processor<'reconcile'> {
  const campaigns = new CampaignsTable(database);
  const results = new JobResults(shards.home.commands);
  const depsOf = ({ index, sale, journal }: WorkerShard): ReconcileDeps => ({
    sale: sale.reader,
    reservations: sale.reservations,
    journal,
    cursor: new JournalCursor(database, index, shards.all.length > 1),
    redemptions: new RedemptionsTable(database),
    campaigns,
    database,
    metrics,
    log,
    settleMs: LIMITS.reconcileSettleMs,
    refill,
  });
  return async ({ productId, answerTo }) => {
    if (!productId) return reconcileAll((product) => depsOf(shards.of(product)), campaigns, metrics);
    const campaign = await campaigns.find(productId);
    const result =
      campaign && (await reconcileCampaign(depsOf(shards.of(campaign.productId)), campaign, { refill: true }));
    if (answerTo) await results.put(answerTo, result);
  };
}
