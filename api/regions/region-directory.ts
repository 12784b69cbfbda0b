import { normaliseCode } from '../../shared/domain/codes.js';
import { type RegionName, regionOfUser } from '../../shared/domain/regions.js';
import type { RegionCampaign } from '../../shared/postgres/region-state.js';

/** The regions that sell a campaign together; null = one alone. */
type Sellers = readonly RegionName[] | null;
/** The campaigns of one region: by product, shared ones by their code in canonical form, and products by number. */
type Campaigns = {
  products: Map<string, Sellers>;
  codes: Map<string, Sellers>;
  numbers: Map<number, string>;
  lastNo: number;
  isComplete: boolean;
};

/**
 * Which campaigns exist in which region, as far as this process has learnt. About 250 bytes for each campaign. A
 * product, and the code of a shared campaign, belongs to the region that has it. If several regions sell it together,
 * it belongs to the region of the user. If several have it without one list, the first of REGIONS decides alone: all
 * regions see the same one.
 */
export class RegionDirectory {
  readonly #regions: ReadonlyMap<RegionName, Campaigns>;

  constructor(
    readonly own: RegionName,
    names: readonly RegionName[],
  ) {
    this.#regions = new Map(
      names.map((name) => [
        name,
        { products: new Map(), codes: new Map(), numbers: new Map(), lastNo: 0, isComplete: false },
      ]),
    );
  }

  /** The highest number of a campaign of a region that is known; 0 = none. */
  lastNo(region: RegionName): number {
    return this.#regions.get(region)?.lastNo ?? 0;
  }

  /** The product of a campaign of a region; null = it is not known. */
  productOf(region: RegionName, no: number): string | null {
    return this.#regions.get(region)?.numbers.get(no) ?? null;
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
    for (const { no, productId, code, regions } of campaigns) {
      known.products.set(productId, regions);
      known.numbers.set(no, productId);
      const canonical = normaliseCode(code ?? '');
      if (canonical.kind === 'code') known.codes.set(canonical.code, regions);
      known.lastNo = Math.max(known.lastNo, no);
    }
    if (isLast) known.isComplete = true;
  }

  /** The regions that sell a product of this region together; null = this one alone, or it is not known. */
  sellersOf(product: string): Sellers {
    return this.#regions.get(this.own)?.products.get(product) ?? null;
  }

  /** The products that this region sells together with others. */
  ownTogether(): string[] {
    const products = [...(this.#regions.get(this.own)?.products ?? [])];
    return products.flatMap(([product, sellers]) => (sellers === null ? [] : [product]));
  }

  /** Whether this region is known to have a campaign for a product. */
  hasOwn(product: string): boolean {
    return this.#regions.get(this.own)?.products.has(product) ?? false;
  }

  /**
   * The region that decides about a product; null = none has a campaign for it, as far as is known.
   * @param user null = the request names none, so any region that sells the product may serve it
   */
  ownerOfProduct(product: string, user: string | null): RegionName | null {
    return this.#ownerOf(({ products }) => products.get(product), user);
  }

  /** The region that decides about a code in canonical form; null = it is the code of no shared campaign. */
  ownerOfSharedCode(code: string, user: string | null): RegionName | null {
    return this.#ownerOf(({ codes }) => codes.get(code), user);
  }

  /** The other regions that have a campaign for a product, each with those that it sells it with. */
  othersWith(product: string): { region: RegionName; sellers: Sellers }[] {
    return [...this.#regions].flatMap(([region, { products }]) => {
      const sellers = products.get(product);
      return region === this.own || sellers === undefined ? [] : [{ region, sellers }];
    });
  }

  /** Whether this region and another one sell a product without the same list. A creation is refused before that. */
  isDisputed(product: string): boolean {
    const own = this.#regions.get(this.own)?.products.get(product);
    if (own === undefined) return false;
    return this.othersWith(product).some(({ sellers }) => sellers === null || sellers.join() !== own?.join());
  }

  #ownerOf(sellersIn: (campaigns: Campaigns) => Sellers | undefined, user: string | null): RegionName | null {
    for (const [name, campaigns] of this.#regions) {
      const sellers = sellersIn(campaigns);
      if (sellers !== undefined) return sellers === null || user === null ? name : regionOfUser(user, sellers);
    }
    return null;
  }
}
