import { Gauge, Registry } from 'prom-client';
import { PREFIX } from '../../shared/observability/metrics.js';
import { type LiveCampaign, wholeCampaigns } from './live-campaigns.js';

/** Campaigns that get series of their own, the newest ones. Each has about eight. */
export const SHOWN_CAMPAIGNS = 50;
const STATES = ['free', 'held', 'redeemed', 'burned'] as const;

/** What one scrape reads of the sale. */
export type SaleSample = {
  /** Of the shards that could be read. */
  campaigns: readonly LiveCampaign[];
  /** By kind; null = unknown, because Redis could not be read. */
  processes: { api: number; worker: number } | null;
};

/**
 * Metrics of the sale. They are read for a scrape, which is computed at most once a second, and not by each process for
 * itself: every process would read the same.
 */
export class SaleMetrics {
  readonly #registry = new Registry();
  readonly #units = this.#gauge('units', 'Units of all live campaigns by state; free without unlimited ones', [
    'state',
  ]);
  readonly #waiting = this.#gauge('waiting_users', 'Users who wait in the lines of all live campaigns');
  readonly #overdue = this.#gauge('overdue_holds', 'Holds of live campaigns whose deadline passed more than 10 s ago');
  readonly #live = this.#gauge('live_campaigns', 'Campaigns that are live, by status; closed: with units on hold', [
    'status',
  ]);
  readonly #processes = this.#gauge('processes', 'Processes that posted metrics in the last 15 s, by kind', ['kind']);
  readonly #campaignUnits = this.#gauge(
    'campaign_units',
    `Units of a live campaign by state, of the ${SHOWN_CAMPAIGNS} newest`,
    ['campaign', 'state'],
  );
  readonly #campaignWaiting = this.#gauge('campaign_waiting_users', 'Users who wait in the line of a live campaign', [
    'campaign',
  ]);
  readonly #campaignOverdue = this.#gauge('campaign_overdue_holds', 'Overdue holds of a live campaign', ['campaign']);
  readonly #campaignInfo = this.#gauge('campaign_info', 'Status of a live campaign; always 1', ['campaign', 'status']);

  /** The metrics in the text format of Prometheus. */
  async text({ campaigns: parts, processes }: SaleSample): Promise<string> {
    const campaigns = wholeCampaigns(parts);
    this.#registry.resetMetrics();
    for (const status of ['open', 'paused', 'closed']) {
      this.#live.set({ status }, campaigns.filter(({ stock }) => stock.status === status).length);
    }
    for (const state of STATES) this.#units.set({ state }, sum(campaigns.map(({ stock }) => stock[state] ?? 0)));
    this.#waiting.set(sum(campaigns.map(({ stock }) => stock.waiting)));
    this.#overdue.set(sum(campaigns.map(({ overdue }) => overdue)));
    if (processes) for (const [kind, count] of Object.entries(processes)) this.#processes.set({ kind }, count);
    const newest = [...campaigns].sort((a, b) => b.no - a.no).slice(0, SHOWN_CAMPAIGNS);
    for (const campaign of newest) this.#show(campaign);
    return this.#registry.metrics();
  }

  #show({ product: campaign, stock, overdue }: LiveCampaign): void {
    for (const state of STATES) {
      const units = stock[state];
      if (units !== null) this.#campaignUnits.set({ campaign, state }, units);
    }
    this.#campaignWaiting.set({ campaign }, stock.waiting);
    this.#campaignOverdue.set({ campaign }, overdue);
    this.#campaignInfo.set({ campaign, status: stock.status }, 1);
  }

  #gauge<const Label extends string>(name: string, help: string, labelNames: readonly Label[] = []): Gauge<Label> {
    return new Gauge({ name: PREFIX + name, help, labelNames: [...labelNames], registers: [this.#registry] });
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
