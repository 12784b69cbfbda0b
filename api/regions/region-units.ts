import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { Stock } from '../../shared/domain/campaign.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { UnitsData } from './region.contract.js';

const RATE_SECONDS = 10;
/** Users at the head who are away are passed over. */
const HEAD = 10;

type Head = Pick<UnitsData, 'head_qty' | 'nobody_there'>;
const NO_HEAD: Head = { head_qty: null, nobody_there: false };

/** The units of this region, of products that several regions sell. */
export class RegionUnits {
  constructor(
    readonly campaigns: Pick<CampaignsTable, 'find'>,
    readonly sales: Pick<Sales, 'stock' | 'of'>,
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
      ...(await this.#head(product, stock)),
      confirmed_per_second: recent / RATE_SECONDS,
    };
  }

  /** Why the line does not move. */
  async #head(product: ProductId, { status, free, waiting }: Stock): Promise<Head> {
    if (status !== 'open' || free === null || waiting === 0) return NO_HEAD;
    // Campaigns of several regions are not divided.
    const found = await this.sales.of(product, FIRST_BUCKET).line.head(product, HEAD);
    if (found.kind !== 'line') return NO_HEAD;
    if (found.reason === 'nobody_there') return { head_qty: null, nobody_there: true };
    const isStuck = found.reason === 'head_wants_more' || found.reason === 'nothing_free';
    return { head_qty: (isStuck && found.head.find(({ away }) => !away)?.qty) || null, nobody_there: false };
  }
}
