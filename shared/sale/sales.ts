import type { CampaignNo, ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { SaleStore } from './sale-store.js';

/**
 * The stores of all shards. `of` is where the shard of a campaign is decided; every call about a campaign goes there.
 */
export type SalesOf = { of(product: ProductId): SaleStore };

/** The sale in Redis: a store for each shard. */
export class Sales implements SalesOf {
  constructor(
    /** By shard. */
    readonly stores: readonly SaleStore[],
    readonly shardOf: (product: ProductId) => number,
  ) {}

  /** The store of the shard in which a campaign is. */
  of(product: ProductId): SaleStore {
    const store = this.stores[this.shardOf(product)];
    if (!store) throw new RangeError(`no shard has ${product}`);
    return store;
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
