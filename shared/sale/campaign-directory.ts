import type { CampaignNo, ProductId } from '../domain/ids.js';
import type { Sales } from './sales.js';

/**
 * Looks up the product of a campaign number. Caches it until a history of a shard ends: a number never changes its
 * product within one, but it may be given again after Postgres and Redis were set back.
 */
export class CampaignDirectory {
  readonly #products = new Map<number, ProductId>();

  #generation = '';

  constructor(
    readonly sales: Pick<Sales, 'productOf'>,
    /** Names the current histories of all shards. */
    readonly generation: () => string,
  ) {}

  /**
   * Reads unknown numbers from Redis each time: the campaign may be new, and a look-up costs no more than the call that
   * follows it.
   * @returns null when no campaign has this number. @throws EngineUnavailable
   */
  async productOf(no: CampaignNo): Promise<ProductId | null> {
    const generation = this.generation();
    if (generation !== this.#generation) {
      this.#products.clear();
      this.#generation = generation;
    }
    const known = this.#products.get(no);
    if (known) return known;
    const product = await this.sales.productOf(no);
    // A history that has begun meanwhile may have another campaign with this number.
    if (product && this.generation() === generation) this.#products.set(no, product);
    return product;
  }
}
