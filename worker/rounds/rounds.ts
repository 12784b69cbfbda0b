import { setTimeout as sleep } from 'node:timers/promises';
import type { InTransit, Transfers } from '../../shared/buckets/transfers.js';
import type { CampaignId, ProductId } from '../../shared/domain/ids.js';
import { givable, planRound, type RoundBucket } from '../../shared/domain/rounds.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { untilNext } from '../../shared/observability/shared-interval.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { Sales } from '../../shared/sale/sales.js';
import { type BucketHeads, MAX_HEADS } from '../../shared/sale/scripts/buckets.js';

/** How often a worker looks whether there are divided campaigns. */
const IDLE_MS = 250;
/** How often transfers are looked for that another process has begun and not completed. */
const COMPLETE_EVERY_MS = 1_000;

export type RoundsDeps = {
  sales: Sales;
  /** The campaigns that are divided. */
  divided: () => ReadonlyMap<ProductId, { id: CampaignId; over?: boolean }>;
  /** Whether this worker has the turn of a campaign. Two workers at once do no harm. */
  hasTurn: (product: ProductId) => Promise<boolean>;
  transfers: Pick<Transfers, 'move' | 'arrive'>;
  metrics: Metrics;
  log: Log;
  limits: { roundEveryMs: number; awayMs: number; promoteBatch: number; lineSettleMs: number };
};

type Campaign = {
  product: ProductId;
  id: CampaignId;
  /** When its transfers were last completed, or could not be. */
  completedAt: number;
  /** Whether Postgres, which has the transfers, could be used at that time. Without it no unit is moved. */
  canMove: boolean;
  /** Bucket → since when it cannot be reached. */
  away: Map<number, number>;
  /** Since when no unit is free or held; null = some are. */
  spentSince: number | null;
  /** Whether it is closed and no unit is on its way, so that it needs no further round. */
  isOver: boolean;
};

/**
 * Serves the lines of divided campaigns. In each round the free units of all buckets go to the lowest line numbers:
 * first to those whose bucket has a unit, then, after transfers, to the others. A round keeps nothing: one that is
 * interrupted anywhere is continued by the next one, of any worker.
 */
export class Rounds {
  readonly #stop = new AbortController();
  readonly #campaigns = new Map<ProductId, Campaign>();
  readonly #running = new Map<ProductId, Promise<void>>();
  #loop: Promise<void> | null = null;

  constructor(readonly deps: RoundsDeps) {}

  start(): void {
    this.#loop = this.#run();
  }

  /** Returns when the current rounds have ended. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
    await Promise.all(this.#running.values());
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const divided = this.deps.divided();
      let live = 0;
      for (const [product, { id, over }] of divided) {
        if (over || this.#campaigns.get(product)?.isOver) continue;
        live += 1;
        if (this.#running.has(product)) continue;
        const round = this.#tryRound(product, id).finally(() => this.#running.delete(product));
        this.#running.set(product, round);
      }
      const everyMs = live > 0 ? this.deps.limits.roundEveryMs : IDLE_MS;
      await sleep(untilNext(everyMs), undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #tryRound(product: ProductId, id: CampaignId): Promise<void> {
    const campaign = this.#campaigns.get(product) ?? {
      product,
      id,
      completedAt: 0,
      canMove: true,
      away: new Map(),
      spentSince: null,
      isOver: false,
    };
    this.#campaigns.set(product, campaign);
    try {
      if (await this.deps.hasTurn(product)) await this.round(campaign);
    } catch (error) {
      if (error instanceof EngineUnavailable) return;
      this.deps.log.error({ campaign: product, err: error }, 'a round failed and will be repeated');
    }
  }

  /** Assigns the units that are free now. @throws EngineUnavailable when a bucket has just become unreachable */
  async round(campaign: Campaign): Promise<void> {
    const { product, id } = campaign;
    const stores = this.deps.sales.all(product);
    const stocks = await this.#heads(campaign, stores, () => 0);
    if (stocks.every((stock) => stock === null)) return;
    if (performance.now() - campaign.completedAt > COMPLETE_EVERY_MS) {
      const found = await this.#withPostgres(campaign, (transfers) => transfers.arrive(product, id));
      campaign.completedAt = performance.now();
      campaign.isOver = found !== null && isOver(stocks, found);
    }
    this.#requireKnown(campaign);
    if (!(await this.#allSealed(product, stores, stocks))) return;
    const free = givable(stocks.map(roundBucket));
    const waiting = stocks.reduce((sum, stock) => sum + (stock?.waiting ?? 0), 0);
    await this.#settleStage(campaign, stores, stocks);
    if (free === 0 || waiting === 0 || !mayPromote(stocks)) return;
    const limit = Math.min(MAX_HEADS, free + 1);
    const buckets = await this.#heads(campaign, stores, (bucket) => ((stocks[bucket]?.waiting ?? 0) > 0 ? limit : 0));
    this.#requireKnown(campaign);
    if (!mayPromote(buckets)) return;
    const { upTo, moves } = planRound(buckets.map(roundBucket));
    if (upTo !== null) await this.#promote(product, stores, buckets, upTo);
    if (moves.length > 0 && campaign.canMove)
      await this.#withPostgres(campaign, (transfers) => transfers.move(product, id, moves));
  }

  /**
   * Runs what needs Postgres. While it is away, the line is served up to the first user who needs a unit of another
   * bucket. @returns null when Postgres cannot be used
   */
  async #withPostgres<Value>(
    campaign: Campaign,
    run: (transfers: RoundsDeps['transfers']) => Promise<Value>,
  ): Promise<Value | null> {
    try {
      const value = await run(this.deps.transfers);
      campaign.canMove = true;
      return value;
    } catch (error) {
      if (!(error instanceof EngineUnavailable && error.engine === 'postgres')) throw error;
      campaign.canMove = false;
      return null;
    }
  }

  /** Reads all buckets; null = the bucket cannot be reached, or is not in Redis. */
  async #heads(
    { product, away }: Campaign,
    stores: readonly SaleStore[],
    limitOf: (bucket: number) => number,
  ): Promise<(BucketHeads | null)[]> {
    const results = await Promise.allSettled(
      stores.map((store, bucket) => store.buckets.heads(product, limitOf(bucket))),
    );
    return results.map((result, bucket) => {
      if (result.status === 'fulfilled' && result.value.kind === 'heads') {
        away.delete(bucket);
        return result.value;
      }
      if (!away.has(bucket)) away.set(bucket, performance.now());
      return null;
    });
  }

  /** For as long as a failover takes, no user is served past one who waits in a bucket that is away. */
  #requireKnown({ product, away }: Campaign): void {
    for (const [bucket, since] of away)
      if (performance.now() - since < this.deps.limits.awayMs)
        throw new EngineUnavailable('redis', `bucket ${bucket} of ${product} cannot be reached`);
  }

  /** @returns whether units go to the line only; seals the buckets that are open while others are sealed */
  async #allSealed(
    product: ProductId,
    stores: readonly SaleStore[],
    stocks: readonly (BucketHeads | null)[],
  ): Promise<boolean> {
    const open = stores.filter((_, bucket) => stocks[bucket]?.stage === 'open');
    if (open.length === 0) return true;
    if (open.length < stocks.filter((stock) => stock !== null).length)
      await Promise.all(open.map((store) => store.buckets.seal(product)));
    return false;
  }

  /**
   * Closes the line once no unit of any bucket was free or held for `lineSettleMs`, as `maintain_line` does in other
   * campaigns, and lets users join again when a unit has come back.
   */
  async #settleStage(
    campaign: Campaign,
    stores: readonly SaleStore[],
    stocks: readonly (BucketHeads | null)[],
  ): Promise<void> {
    const known = stocks.flatMap((stock) => stock ?? []);
    if (known.length < stores.length) return;
    const { product, id } = campaign;
    const total = known.reduce((sum, stock) => sum + stock.total, 0);
    if (total === 0 || known.some(({ free, held }) => free + held > 0)) {
      campaign.spentSince = null;
      if (known.some(({ stage }) => stage === 'spent'))
        await Promise.all(stores.map((store) => store.buckets.seal(product, 'obtainable')));
      return;
    }
    campaign.spentSince ??= performance.now();
    if (performance.now() - campaign.spentSince < this.deps.limits.lineSettleMs) return;
    if (!campaign.canMove || known.every(({ stage }) => stage === 'spent')) return;
    const found = await this.#withPostgres(campaign, (transfers) => transfers.arrive(product, id));
    // Units on their way are neither free nor held.
    if (found === null || found.transfers.length > 0 || (found.total ?? 0) > total) return;
    const outcomes = await Promise.all(stores.map((store) => store.buckets.seal(product, 'spent')));
    const closed = outcomes.reduce((sum, outcome) => sum + (outcome.kind === 'sealed' ? outcome.closed : 0), 0);
    if (closed > 0) this.deps.log.info({ campaign: product, closed }, 'a line was closed: no unit can come back');
  }

  /**
   * Promotes in the order of the line numbers, one call after the other: a round that dies leaves only later ones. A
   * bucket that promotes fewer users than planned ends the round, since users of other buckets may come later in line.
   */
  async #promote(
    product: ProductId,
    stores: readonly SaleStore[],
    buckets: readonly (BucketHeads | null)[],
    upTo: number,
  ): Promise<void> {
    const { metrics, log } = this.deps;
    let promoted = 0;
    for (const run of runsOf(buckets, upTo)) {
      const served = await this.#promoteRun(product, stores[run.bucket] as SaleStore, run);
      promoted += served;
      if (served < run.users) break;
    }
    if (promoted === 0) return;
    metrics.promoted.inc(promoted);
    log.info({ campaign: product, promoted, up_to: upTo }, 'waiting users promoted');
  }

  /** @returns how many users were promoted; fewer than planned if some have left or the bucket has changed */
  async #promoteRun(product: ProductId, store: SaleStore, { last, users }: Run): Promise<number> {
    let served = 0;
    while (served < users) {
      const outcome = await store.line.promote(product, this.deps.limits.promoteBatch, last);
      if (outcome.kind === 'not_found' || outcome.count === 0) break;
      served += outcome.count;
    }
    return served;
  }
}

/**
 * Whether no bucket that can be reached is paused or closed. A pause or a resume changes them one after the other;
 * promotions meanwhile would serve later line numbers first. A scheduled campaign sells from its start by the clock.
 */
function mayPromote(stocks: readonly (BucketHeads | null)[]): boolean {
  return stocks.every((stock) => stock === null || stock.status === 'open' || stock.status === 'scheduled');
}

/** @param found what was on its way. Units that have left in Redis only are missing in the sum of the buckets */
function isOver(stocks: readonly (BucketHeads | null)[], found: InTransit): boolean {
  const total = stocks.reduce((sum, stock) => sum + (stock?.total ?? 0), 0);
  const isClosed = stocks.every((stock) => stock?.status === 'closed');
  return isClosed && found.transfers.length === 0 && (found.total ?? 0) <= total;
}

type Run = { bucket: number; last: number; users: number };

/** Splits the line up to a number into runs of users of one bucket. */
function runsOf(buckets: readonly (BucketHeads | null)[], upTo: number): Run[] {
  const users = buckets
    .flatMap((stock, bucket) => (stock?.heads ?? []).map(({ lineNo }) => ({ bucket, lineNo })))
    .filter(({ lineNo }) => lineNo <= upTo)
    .sort((a, b) => a.lineNo - b.lineNo);
  const runs: Run[] = [];
  for (const { bucket, lineNo } of users) {
    const run = runs.at(-1);
    if (run?.bucket === bucket) Object.assign(run, { last: lineNo, users: run.users + 1 });
    else runs.push({ bucket, last: lineNo, users: 1 });
  }
  return runs;
}

function roundBucket(stock: BucketHeads | null): RoundBucket {
  return stock ? { ...stock, codes: stock.codes?.unused ?? null } : { free: 0, codes: null, waiting: 0, heads: [] };
}
