import type { CampaignNo, ProductId } from '../domain/ids.js';
import type { Sales } from './sales.js';

/** Looks up the product of a campaign number. Caches it, because it never changes. */
export class CampaignDirectory {
  readonly #products = new Map<number, ProductId>();

  constructor(readonly sales: Pick<Sales, 'productOf'>) {}

  /**
   * Reads unknown numbers from Redis each time: the campaign may be new, and a look-up costs no more than the call that
   * follows it.
   * @returns null when no campaign has this number. @throws EngineUnavailable
   */
  async productOf(no: CampaignNo): Promise<ProductId | null> {
    const known = this.#products.get(no);
    if (known) return known;
    const product = await this.sales.productOf(no);
    if (product) this.#products.set(no, product);
    return product;
  }
}
