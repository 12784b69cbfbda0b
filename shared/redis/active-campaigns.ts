import type { Redis } from 'ioredis';
import type { ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { keys } from './keys.js';
import type { SaleStore } from './sale-store.js';

/** A new campaign is found within this time; before that it has no deadline that could have passed. */
const DIRECTORY_FRESH_MS = 1_000;

/** Campaigns in which there is something to sweep, found without running a script in each. */
export class ActiveCampaigns {
  #products: ProductId[] = [];
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(
    readonly sale: Pick<SaleStore, 'directory'>,
    readonly redis: Redis,
  ) {}

  /** Campaigns in which users wait. @throws EngineUnavailable */
  async waiting(): Promise<ProductId[]> {
    return this.#withAny(keys.line);
  }

  /** Campaigns in which users wait, or units are held until a deadline. @throws EngineUnavailable */
  async heldOrWaiting(): Promise<ProductId[]> {
    return this.#withAny(keys.line, keys.deadlines);
  }

  async #withAny(...sets: ((product: ProductId) => string)[]): Promise<ProductId[]> {
    const products = await this.#directory();
    try {
      const sizes = await Promise.all(
        products.map(async (product) => Promise.all(sets.map((key) => this.redis.zcard(key(product))))),
      );
      return products.filter((_product, i) => sizes[i]?.some((size) => size > 0));
    } catch (error) {
      throw new EngineUnavailable('redis', error instanceof Error ? error.message : String(error), { cause: error });
    }
  }

  async #directory(): Promise<ProductId[]> {
    const now = performance.now();
    if (now - this.#readAt >= DIRECTORY_FRESH_MS) {
      this.#products = [...(await this.sale.directory()).values()];
      this.#readAt = now;
    }
    return this.#products;
  }
}
