import type { CampaignNo, ProductId } from '../domain/ids.js';
import type { SaleReader } from './sale-reader.js';

/** Which product a campaign's number stands for. Never changes once given, so it is kept. */
export class CampaignDirectory {
  readonly #products = new Map<number, ProductId>();

  constructor(readonly sale: SaleReader) {}

  /**
   * A number that is not known yet is looked up each time: a campaign may have been created a moment ago, and a look-up
   * costs no more than the call that follows it.
   * @returns null when no campaign has this number. @throws EngineUnavailable
   */
  async productOf(no: CampaignNo): Promise<ProductId | null> {
    const known = this.#products.get(no);
    if (known) return known;
    const product = await this.sale.productOf(no);
    if (product) this.#products.set(no, product);
    return product;
  }
}
