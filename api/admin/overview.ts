import type { QueueName } from '../../shared/contracts/jobs.js';
import { QUEUE_NAMES } from '../../shared/contracts/jobs.js';
import type { Stock } from '../../shared/domain/campaign.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Recent } from '../../shared/observability/recent.js';
import { type CampaignPause, lastPauses } from '../../shared/postgres/audit-log.js';
import { type CampaignFilter, nextCursor } from '../../shared/postgres/campaign-list.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import { liveWorkers } from '../../shared/postgres/live-workers.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { JobCounts, QueueState } from '../../shared/queues/queues.js';
import type { Journal } from '../../shared/redis/journal.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { Campaigns } from './campaigns.js';
import type { Totals, TotalsReader } from './totals.js';

const RATE_SECONDS = 10;

export type CampaignNow = {
  campaign: StoredCampaign;
  /** null = Redis does not have the campaign, for instance long after its end. */
  stock: Stock | null;
  persisted: number;
  confirmedPerSecond: number;
  /** null = not paused, or the pause is not in Postgres yet. */
  pause: CampaignPause | null;
};
/** The queue of all shards: `oldestSeconds` and `reason` of the job that has waited longest. */
export type QueueSummary = JobCounts & Pick<QueueState, 'oldestSeconds' | 'reason'>;
export type Overview = {
  timeMs: number;
  journal: { entries: number; oldestSeconds: number };
  /** Names of the workers that are alive. */
  workers: string[];
  queues: Record<QueueName, QueueSummary>;
  campaigns: CampaignNow[];
  /** null = the overview of one campaign, or the last page */
  next: number | null;
  /** Sums over all campaigns; null = the overview of one campaign. */
  totals: Totals | null;
};

export type OverviewDeps = {
  campaigns: Campaigns;
  table: CampaignsTable;
  redemptions: RedemptionsTable;
  sales: Pick<Sales, 'stock'>;
  queueStates: Pick<Recent<QueueState[]>, 'get'>;
  shards: readonly { index: number; journal: Journal }[];
  clock: RedisClock;
  totals: TotalsReader;
};

/** Reads the data of the operator's page. Each part is one bounded read, whatever the size of the sale. */
export class OverviewReader {
  constructor(readonly deps: OverviewDeps) {}

  async page(filter: CampaignFilter, limit: number, cursor: number | null): Promise<Overview> {
    const [campaigns, totals] = await Promise.all([
      this.deps.table.list(filter, limit, cursor),
      this.deps.totals.read(),
    ]);
    return this.#around(campaigns, nextCursor(filter, campaigns, limit, cursor), totals);
  }

  /** @throws Problem 404 */
  async one(idOrProduct: string): Promise<Overview> {
    return this.#around([await this.deps.campaigns.find(idOrProduct)], null, null);
  }

  async #around(campaigns: readonly StoredCampaign[], next: number | null, totals: Totals | null): Promise<Overview> {
    const [now, backlogs, workers, queues] = await Promise.all([
      this.#live(campaigns),
      this.#eachShard(({ journal }) => journal.backlog()),
      liveWorkers(this.deps.table.database),
      this.#queues(),
    ]);
    const timeMs = this.deps.clock.nowMs();
    const oldestMs = Math.min(...backlogs.map((backlog) => backlog.oldestMs ?? timeMs));
    return {
      timeMs,
      journal: {
        entries: backlogs.reduce((sum, { entries }) => sum + entries, 0),
        oldestSeconds: Math.max(0, Math.round(timeMs - oldestMs) / 1000),
      },
      workers,
      queues,
      campaigns: now,
      next,
      totals,
    };
  }

  /**
   * Reads from every shard.
   * @returns the results of those that can be read
   * @throws EngineUnavailable if none can
   */
  async #eachShard<Value>(read: (shard: OverviewDeps['shards'][number]) => Promise<Value>): Promise<Value[]> {
    const results = await Promise.allSettled(this.deps.shards.map(read));
    const values = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    if (values.length > 0) return values;
    throw EngineUnavailable.from('redis', (results[0] as PromiseRejectedResult).reason);
  }

  async #live(campaigns: readonly StoredCampaign[]): Promise<CampaignNow[]> {
    const paused = campaigns.filter(({ status }) => status === 'paused').map(({ id }) => id);
    const [stocks, pauses, summaries] = await Promise.all([
      Promise.all(campaigns.map((campaign) => this.#stock(campaign))),
      lastPauses(this.deps.table.database, paused),
      this.deps.redemptions.summaries(
        campaigns.map(({ id }) => id),
        RATE_SECONDS,
      ),
    ]);
    return campaigns.map((campaign, i) => {
      const { taken, recent } = summaries.get(campaign.id) ?? { taken: 0, recent: 0 };
      const stock = stocks[i] ?? null;
      const pause = stock && stock.status !== 'paused' ? null : (pauses.get(campaign.id) ?? null);
      return { campaign, stock, persisted: taken, confirmedPerSecond: recent / RATE_SECONDS, pause };
    });
  }

  /** Null also while the shard of the campaign is away and others are not. */
  async #stock({ productId }: StoredCampaign): Promise<Stock | null> {
    try {
      return await this.deps.sales.stock(productId);
    } catch (error) {
      if (this.deps.shards.length > 1 && error instanceof EngineUnavailable) return null;
      throw error;
    }
  }

  async #queues(): Promise<Overview['queues']> {
    const states = await this.deps.queueStates.get();
    const summaries = QUEUE_NAMES.map((name) => [name, summed(states.filter((state) => state.name === name))] as const);
    return Object.fromEntries(summaries) as Overview['queues'];
  }
}

function summed(states: readonly QueueState[]): QueueSummary {
  const sum = (of: keyof JobCounts) => states.reduce((total, state) => total + state[of], 0);
  const [oldest] = states.toSorted((a, b) => (b.oldestSeconds ?? -1) - (a.oldestSeconds ?? -1));
  return {
    ...{ waiting: sum('waiting'), active: sum('active'), delayed: sum('delayed'), failed: sum('failed') },
    oldestSeconds: oldest?.oldestSeconds ?? null,
    reason: oldest?.reason ?? null,
  };
}
