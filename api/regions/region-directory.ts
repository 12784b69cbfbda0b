import { normaliseCode } from '../../shared/domain/codes.js';
import type { RegionName } from '../../shared/domain/regions.js';
import type { RegionCampaign } from '../../shared/postgres/region-state.js';

/** The campaigns of one region: its products, and the codes of its shared campaigns. */
type Campaigns = { products: Set<string>; codes: Set<string>; lastNo: number; isComplete: boolean };

/**
 * Which campaigns exist in which region, as far as this process has learnt. About 150 bytes for each campaign. A
 * product, and the code of a shared campaign, belongs to this region if it has it, else to the region that has it.
 */
export class RegionDirectory {
  readonly #regions: ReadonlyMap<RegionName, Campaigns>;

  constructor(
    readonly own: RegionName,
    names: readonly RegionName[],
  ) {
    this.#regions = new Map(
      names.map((name) => [name, { products: new Set(), codes: new Set(), lastNo: 0, isComplete: false }]),
    );
  }

  /** The highest number of a campaign of a region that is known; 0 = none. */
  lastNo(region: RegionName): number {
    return this.#regions.get(region)?.lastNo ?? 0;
  }

  /** Whether this process has learnt of every region's campaigns at least once. */
  get isComplete(): boolean {
    return [...this.#regions.values()].every(({ isComplete }) => isComplete);
  }

  /** Whether this region's own campaigns have been read. */
  get knowsOwn(): boolean {
    return this.#regions.get(this.own)?.isComplete ?? false;
  }

  /** @param isLast whether the region has no further campaigns */
  add(region: RegionName, campaigns: readonly RegionCampaign[], isLast: boolean): void {
    const known = this.#regions.get(region);
    if (!known) return;
    for (const { no, productId, code } of campaigns) {
      known.products.add(productId);
      const canonical = normaliseCode(code ?? '');
      if (canonical.kind === 'code') known.codes.add(canonical.code);
      known.lastNo = Math.max(known.lastNo, no);
    }
    if (isLast) known.isComplete = true;
  }

  /** The region that has a campaign for a product; null = none, as far as is known. */
  ownerOfProduct(product: string): RegionName | null {
    return this.#ownerOf(({ products }) => products.has(product));
  }

  /** The region that has a shared campaign with a code in canonical form; null = none. */
  ownerOfSharedCode(code: string): RegionName | null {
    return this.#ownerOf(({ codes }) => codes.has(code));
  }

  #ownerOf(has: (campaigns: Campaigns) => boolean): RegionName | null {
    const own = this.#regions.get(this.own);
    if (own && has(own)) return this.own;
    for (const [name, campaigns] of this.#regions) if (has(campaigns)) return name;
    return null;
  }
}
