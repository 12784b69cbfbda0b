import type { CampaignNo, ProductId } from '../domain/ids.js';
import { ofHistory } from './of-history.js';
import type { Sales } from './sales.js';

/**
 * Looks up the product of a campaign number. Caches it until a history of a shard ends: a number never changes its
 * product within one, but it may be given again after Postgres and Redis were set back.
 */
export class CampaignDirectory {
  readonly #products = new Map<number, ProductId>();
  readonly #history: () => string;

  /** @param generation as of `ofHistory` */
  constructor(
    readonly sales: Pick<Sales, 'productOf'>,
    generation: () => string,
  ) {
    this.#history = ofHistory(generation, () => this.#products.clear());
  }

  /**
   * Reads unknown numbers from Redis each time: the campaign may be new, and a look-up costs no more than the call that
   * follows it.
   * @returns null when no campaign has this number. @throws EngineUnavailable
   */
  async productOf(no: CampaignNo): Promise<ProductId | null> {
    const history = this.#history();
    const known = this.#products.get(no);
    if (known) return known;
    const product = await this.sales.productOf(no);
    // A history that has begun meanwhile may have another campaign with this number.
    if (product && this.#history() === history) this.#products.set(no, product);
    return product;
  }
}
