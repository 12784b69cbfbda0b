import type { ProductId } from '../../shared/domain/ids.js';
import type { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { UnitsData } from './region.contract.js';

const RATE_SECONDS = 10;

/** The units of this region, of products that several regions sell. */
export class RegionUnits {
  constructor(
    readonly campaigns: Pick<CampaignsTable, 'find'>,
    readonly sales: Pick<Sales, 'stock'>,
    readonly redemptions: Pick<RedemptionsTable, 'summary'>,
  ) {}

  /** @returns those whose campaign is in Redis */
  async of(products: readonly string[]): Promise<UnitsData[]> {
    const found = await Promise.all(products.map((product) => this.#ofOne(product as ProductId)));
    return found.filter((one) => one !== null);
  }

  async #ofOne(product: ProductId): Promise<UnitsData | null> {
    const stock = await this.sales.stock(product);
    if (!stock) return null;
    // Nothing is sold of a campaign that is not open, or that has no unit. A sold-out one is asked for every second.
    const mayHavePace = stock.status === 'open' && (stock.free === null || stock.free + stock.held > 0);
    const campaign = mayHavePace ? await this.campaigns.find(product) : undefined;
    const recent = campaign ? (await this.redemptions.summary(campaign.id, RATE_SECONDS)).recent : 0;
    const { status, total, free, held, redeemed, burned, waiting } = stock;
    return {
      ...{ product_id: product, status, total, free, held, redeemed, burned, waiting },
      confirmed_per_second: recent / RATE_SECONDS,
    };
  }
}
