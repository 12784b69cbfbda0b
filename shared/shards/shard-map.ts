import type { ProductId } from '../domain/ids.js';
import { type ShardCount, shardOfProduct } from '../domain/shards.js';
import type { Sharding } from '../postgres/installation.js';

/** In which shard each campaign is. */
export class ShardMap {
  /** Campaigns that were moved. */
  #moved: ReadonlyMap<ProductId, number> = new Map();
  #version = 0;
  readonly #listeners: (() => void)[] = [];

  constructor(readonly count: ShardCount) {}

  /** Of the moves that this process knows. */
  get version(): number {
    return this.#version;
  }

  shardOf(product: ProductId): number {
    if (this.count === 1) return 0;
    return this.#moved.get(product) ?? shardOfProduct(product, this.count);
  }

  replace({ version, moved }: Pick<Sharding, 'version' | 'moved'>): void {
    // Several shards read it at once, so an older state may arrive later.
    if (version < this.#version) return;
    this.#moved = moved;
    this.#version = version;
    for (const listener of this.#listeners) listener();
  }

  /** Calls back when campaigns have moved. */
  onMoved(listener: () => void): void {
    this.#listeners.push(listener);
  }
}
