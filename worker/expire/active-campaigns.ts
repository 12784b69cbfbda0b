import type { Redis } from 'ioredis';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { keys } from '../../shared/redis/keys.js';
import type { SaleReader } from '../../shared/sale/sale-reader.js';

/**
 * How often all campaigns are asked. It is no longer than the shortest hold, so a new hold is found before its deadline
 * passes.
 */
const ALL_EVERY_MS = 1_000;

/** `firstDeadlineMs`: the earliest deadline of a hold, by the clock of Redis; Infinity = nothing is held. */
export type ActiveCampaign = { product: ProductId; isWaiting: boolean; firstDeadlineMs: number };

/** Finds campaigns with users who wait, or with a deadline that has passed, without running a script in each. */
export class ActiveCampaigns {
  #known: ActiveCampaign[] = [];
  /** Campaigns of the last result, which are asked again each time. */
  #last: ReadonlySet<ProductId> = new Set();
  #allAt = Number.NEGATIVE_INFINITY;

  constructor(
    readonly sale: Pick<SaleReader, 'directory'>,
    readonly redis: Redis,
  ) {}

  /**
   * Campaigns in which users wait or a deadline has passed.
   * @param nowMs by the clock of Redis
   * @throws EngineUnavailable
   */
  async read(nowMs: number): Promise<ActiveCampaign[]> {
    if (performance.now() - this.#allAt >= ALL_EVERY_MS) {
      const products = [...(await this.sale.directory()).values()];
      this.#known = await this.#ask(products);
      this.#allAt = performance.now();
    } else if (this.#last.size > 0) {
      const again = await this.#ask([...this.#last]);
      this.#known = [...this.#known.filter(({ product }) => !this.#last.has(product)), ...again];
    }
    const active = this.#known.filter(({ isWaiting, firstDeadlineMs }) => isWaiting || firstDeadlineMs <= nowMs);
    this.#last = new Set(active.map(({ product }) => product));
    return active;
  }

  async #ask(products: readonly ProductId[]): Promise<ActiveCampaign[]> {
    const one = async (product: ProductId): Promise<ActiveCampaign> => {
      const [waiting, [, deadline]] = await Promise.all([
        this.redis.zcard(keys.line(product)),
        this.redis.zrange(keys.deadlines(product), '0', '0', 'WITHSCORES'),
      ]);
      return { product, isWaiting: waiting > 0, firstDeadlineMs: deadline ? Number(deadline) : Infinity };
    };
    try {
      return await Promise.all(products.map(one));
    } catch (error) {
      throw EngineUnavailable.from('redis', error);
    }
  }
}
