import { LIMITS } from '../../shared/config/limits.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import type { Processor } from '../../shared/queues/queues.js';
import { JobResults } from '../../shared/redis/job-results.js';
import type { Core } from '../core.js';
import { type ReconcileDeps, reconcileAll, reconcileCampaign } from './reconcile.js';

/** Compares both sides: one campaign, whose result an operator may wait for, or all of them. */
export function reconcileModule(
  { sale, journal, database, metrics, log, commands }: Core,
  { refill }: Pick<ReconcileDeps, 'refill'>,
): Processor<'reconcile'> {
  const campaigns = new CampaignsTable(database);
  const results = new JobResults(commands);
  const deps: ReconcileDeps = {
    sale: sale.reader,
    reservations: sale.reservations,
    journal,
    cursor: new JournalCursor(database),
    redemptions: new RedemptionsTable(database),
    campaigns,
    database,
    metrics,
    log,
    settleMs: LIMITS.reconcileSettleMs,
    refill,
  };
  return async ({ productId, answerTo }) => {
    if (!productId) return reconcileAll(deps, { refill: false });
    const campaign = await campaigns.find(productId);
    const result = campaign && (await reconcileCampaign(deps, campaign, { refill: true }));
    if (answerTo) await results.put(answerTo, result);
  };
}
