import type { Stock } from '../domain/campaign.js';
import type { CampaignId, CampaignNo, ProductId, UserId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { SaleStore } from './sale-store.js';

/** In which shard campaigns and their buckets are (ShardMap). */
export type SaleMap = {
  shardOf(product: ProductId, bucket: number): number;
  bucketsOf(product: ProductId): number;
  bucketOf(product: ProductId, user: UserId): number;
  dividedId(product: ProductId): CampaignId | null;
};

/**
 * The stores of all shards. `of` is where the shard of a campaign is decided; every call about a campaign goes there.
 * Calls about a user or a reservation name its bucket (docs/buckets.md), which is 0 in campaigns that are not divided.
 */
export type SalesOf = {
  of(product: ProductId, bucket: number): SaleStore;
  bucketOf(product: ProductId, user: UserId): number;
};

/** The sale in Redis: a store for each shard. */
export class Sales implements SalesOf {
  constructor(
    /** By shard. */
    readonly stores: readonly SaleStore[],
    readonly map: SaleMap,
  ) {}

  /** The store of the shard in which a campaign, or a bucket of it, is. */
  of(product: ProductId, bucket: number): SaleStore {
    const store = this.stores[this.map.shardOf(product, bucket)];
    if (!store) throw new RangeError(`no shard has ${product}`);
    return store;
  }

  bucketOf(product: ProductId, user: UserId): number {
    return this.map.bucketOf(product, user);
  }

  /** The stores of all buckets, in their order; one for a campaign that is not divided. */
  all(product: ProductId): SaleStore[] {
    return Array.from({ length: this.map.bucketsOf(product) }, (_, bucket) => this.of(product, bucket));
  }

  /**
   * The counters of a campaign: the sums over its buckets, each read at one moment. Units that move between buckets are
   * missing meanwhile.
   * @returns null when Redis lacks the campaign or a bucket of it
   */
  async stock(product: ProductId): Promise<Stock | null> {
    const stocks = await Promise.all(this.all(product).map((store) => store.reader.stock(product)));
    const [first] = stocks;
    if (!first || stocks.length === 1) return first ?? null;
    const sum = (name: 'held' | 'redeemed' | 'burned' | 'waiting' | 'total' | 'free') =>
      stocks.reduce((units, stock) => units + (stock?.[name] ?? 0), 0);
    if (stocks.includes(null)) return null;
    return {
      status: first.status,
      total: first.total === null ? null : sum('total'),
      free: first.free === null ? null : sum('free'),
      ...{ held: sum('held'), redeemed: sum('redeemed'), burned: sum('burned'), waiting: sum('waiting') },
    };
  }

  /**
   * Looks for a campaign number in every shard.
   * @returns null when no shard has it
   * @throws EngineUnavailable when no shard has it and a shard cannot be asked
   */
  async productOf(no: CampaignNo): Promise<ProductId | null> {
    const found = await Promise.allSettled(this.stores.map((store) => store.reader.productOf(no)));
    for (const result of found) if (result.status === 'fulfilled' && result.value !== null) return result.value;
    for (const result of found) if (result.status === 'rejected') throw EngineUnavailable.from('redis', result.reason);
    return null;
  }
}
