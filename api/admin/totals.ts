import { type CampaignSums, campaignSums } from '../../shared/postgres/campaign-list.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { Sales } from '../../shared/sale/sales.js';

const RATE_SECONDS = 10;
/** Campaigns of which the lines are counted. */
const LINES = 500;
/** Operators who look at the same time share a read. */
const FRESH_MS = 1_500;

/** `complete`: false = more campaigns have a line than are counted, or Redis lacks one of them. */
export type Totals = Omit<CampaignSums, 'recent' | 'withLine'> & {
  waiting: number;
  confirmedPerSecond: number;
  complete: boolean;
};

/** Sums over all campaigns, read at most once in 1.5 s in each process. */
export class TotalsReader {
  #last: { atMs: number; totals: Promise<Totals> } | null = null;

  constructor(
    readonly database: Database,
    readonly sales: Pick<Sales, 'stock'>,
    readonly nowMs: () => number,
  ) {}

  /** @throws EngineUnavailable */
  read(): Promise<Totals> {
    const now = this.nowMs();
    if (this.#last && Math.abs(now - this.#last.atMs) < FRESH_MS) return this.#last.totals;
    const totals = this.#read();
    this.#last = { atMs: now, totals };
    totals.catch(() => {
      if (this.#last?.totals === totals) this.#last = null;
    });
    return totals;
  }

  async #read(): Promise<Totals> {
    const { recent, withLine, ...sums } = await campaignSums(this.database, RATE_SECONDS, LINES);
    const lines = await Promise.all(
      withLine.map((product) =>
        this.sales.stock(product).then(
          (stock) => stock?.waiting ?? 0,
          () => null,
        ),
      ),
    );
    return {
      ...sums,
      waiting: lines.reduce<number>((sum, waiting) => sum + (waiting ?? 0), 0),
      confirmedPerSecond: recent / RATE_SECONDS,
      complete: withLine.length < LINES && !lines.includes(null),
    };
  }
}
