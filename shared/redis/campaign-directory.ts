import type { CampaignNo, ProductId } from '../domain/ids.js';
import type { SaleStore } from './sale-store.js';

/** A number that is unknown is looked up at most this often, whatever nonsense is asked for. */
const MISS_LOOKUP_EVERY_MS = 200;

/** Which product a campaign's number stands for. Never changes once given, so it is kept; one look-up serves all misses. */
export class CampaignDirectory {
  #products: ReadonlyMap<number, ProductId> = new Map();
  #loading: Promise<void> | null = null;
  #loadedAt = Number.NEGATIVE_INFINITY;

  constructor(readonly sale: SaleStore) {}

  /** null when no campaign has this number. @throws EngineUnavailable */
  async productOf(no: CampaignNo): Promise<ProductId | null> {
    const known = this.#products.get(no);
    if (known) return known;
    if (performance.now() - this.#loadedAt > MISS_LOOKUP_EVERY_MS) {
      this.#loading ??= this.#load().finally(() => {
        this.#loading = null;
      });
      await this.#loading;
    }
    return this.#products.get(no) ?? null;
  }

  async #load(): Promise<void> {
    this.#products = await this.sale.directory();
    this.#loadedAt = performance.now();
  }
}
