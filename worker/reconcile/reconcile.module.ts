import type { Reconciliation } from '../../shared/contracts/reconciliation.js';
import { Uncovered } from '../../shared/image/journal-tail.js';
import { CampaignsTable, type StoredCampaign } from '../../shared/postgres/campaigns.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { JobResults } from '../../shared/redis/job-results.js';
import type { Core, WorkerShard } from '../core.js';
import { type ReconcileDeps, reconcileAll, reconcileCampaign } from './reconcile.js';

export type Reconciling = {
  /**
   * Compares one campaign unit by unit, and repairs it. An operator may wait for the result.
   * @returns null = Postgres lacks the campaign, or the journal what would explain its differences
   */
  one: (productId: string, jobId: string) => Promise<Reconciliation | null>;
  /** Compares all live campaigns by their counters. */
  all: () => Promise<void>;
};

/** Compares Redis and Postgres. */
export function reconcileModule(
  { shards, database, metrics, log, clock }: Core,
  { refill }: { refill: (campaign: StoredCampaign, reason: string, bucket: number) => Promise<void> },
): Reconciling {
  const campaigns = new CampaignsTable(database);
  const results = new JobResults(shards.home.commands);
  const partOf = ({ sale, journal, cursor }: WorkerShard) => ({ sale: sale.reader, journal, cursor });
  const common = {
    redemptions: new RedemptionsTable(database),
    campaigns,
    database,
    metrics,
    log,
    nowMs: () => Math.round(clock.nowMs()),
    refill: async (campaign: StoredCampaign, reason: string) => {
      for (let bucket = 0; bucket < campaign.buckets; bucket += 1) await refill(campaign, reason, bucket);
    },
  };
  const depsOf = ({ productId, buckets }: StoredCampaign): ReconcileDeps => ({
    ...common,
    parts: Array.from({ length: buckets }, (_, bucket) => partOf(shards.of(productId, bucket))),
  });
  /** @returns null also when nothing can be known: the log has the reason */
  const reconcile = async (campaign: StoredCampaign): Promise<Reconciliation | null> => {
    try {
      return await reconcileCampaign(depsOf(campaign), campaign, { refill: true });
    } catch (error) {
      if (!(error instanceof Uncovered)) throw error;
      log.error({ err: error, campaign: campaign.productId }, 'a campaign could not be compared');
      return null;
    }
  };
  return {
    async one(productId, jobId) {
      const campaign = await campaigns.find(productId);
      const result = campaign && (await reconcile(campaign));
      await results.put(jobId, result);
      return result;
    },
    all: () => reconcileAll(depsOf, campaigns, metrics),
  };
}
