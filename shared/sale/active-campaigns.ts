import type { Redis } from 'ioredis';
import type { ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { keys } from '../redis/keys.js';
import type { RedisClock } from '../redis/redis-clock.js';
import type { SaleReader } from './sale-reader.js';

/** A new campaign is found within this time, before its first deadline can pass. */
const DIRECTORY_FRESH_MS = 1_000;

/** Longer than the error of the estimate of Redis's clock. */
const DUE_SOON_MS = 1_000;

/** Finds campaigns that need a sweep, without running a script in each. */
export class ActiveCampaigns {
  #products: ProductId[] = [];
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(
    readonly sale: Pick<SaleReader, 'directory'>,
    readonly redis: Redis,
    readonly clock: Pick<RedisClock, 'nowMs'>,
    /** Whether a campaign is in this shard. A move that was interrupted may have left a copy of another shard's. */
    readonly has: (product: ProductId) => boolean = () => true,
  ) {}

  /** Campaigns in which users wait. @throws EngineUnavailable */
  async waiting(): Promise<ProductId[]> {
    return this.#which((product) => this.#isWaiting(product));
  }

  /**
   * Campaigns in which users wait, or a deadline has passed or passes soon. A clock of Redis that jumps ahead is
   * noticed within a second, when it is sampled again.
   * @throws EngineUnavailable
   */
  async dueOrWaiting(): Promise<ProductId[]> {
    return this.#which(async (product) => {
      const [waiting, due] = await Promise.all([this.#isWaiting(product), this.#isDue(product)]);
      return waiting || due;
    });
  }

  async #isWaiting(product: ProductId): Promise<boolean> {
    return (await this.redis.zcard(keys.line(product))) > 0;
  }

  async #isDue(product: ProductId): Promise<boolean> {
    return (await this.redis.zcount(keys.deadlines(product), '-inf', this.clock.nowMs() + DUE_SOON_MS)) > 0;
  }

  async #which(isActive: (product: ProductId) => Promise<boolean>): Promise<ProductId[]> {
    const products = await this.#directory();
    try {
      const active = await Promise.all(products.map(isActive));
      return products.filter((_product, i) => active[i]);
    } catch (error) {
      throw EngineUnavailable.from('redis', error);
    }
  }

  async #directory(): Promise<ProductId[]> {
    const now = performance.now();
    if (now - this.#readAt >= DIRECTORY_FRESH_MS) {
      this.#products = [...(await this.sale.directory()).values()].filter((product) => this.has(product));
      this.#readAt = now;
    }
    return this.#products;
  }
}
