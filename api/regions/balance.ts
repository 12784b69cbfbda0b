import { createHash } from 'node:crypto';
import { z } from 'zod';
import { ACTORS } from '../../shared/domain/actors.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { RegionName } from '../../shared/domain/regions.js';
import type { Log } from '../../shared/observability/log.js';
import { type UnitsData, unitsContract, unitsData } from './region.contract.js';
import type { RegionUnits } from './region-units.js';
import type { Regions } from './regions.js';
import type { Transfers } from './transfers.js';

type Units = Omit<UnitsData, 'product_id'>;

export type BalanceDeps = {
  regions: Regions;
  units: RegionUnits;
  transfers: Pick<Transfers, 'give'>;
  /** Notes what other regions have of a product of which this region lacks units. */
  note: (product: ProductId, elsewhere: 'units' | 'none') => Promise<unknown>;
  nowMs: () => number;
  log: Log;
  limits: { regionBalanceMs: number; regionBalanceAheadSeconds: number; regionProductsAtOnce: number };
};

const LOOKS_WITHOUT_CLOSED = 60;

/**
 * Gives free units of products that several regions sell to the regions where users wait for them, or soon will. Each
 * gift is a transfer, so the sum over all regions never changes.
 */
export class Balance {
  /** Products that were closed at the last look at all: they get and give no more units. */
  #closed = new Set<string>();
  #looks = 0;

  constructor(readonly deps: BalanceDeps) {}

  /** Looks once. All processes do: those that look in the same moment begin the same transfer. */
  async run(): Promise<void> {
    const { regions, units, limits, log } = this.deps;
    try {
      // A history that was set back may open a closed campaign again.
      if (this.#looks++ % LOOKS_WITHOUT_CLOSED === 0) this.#closed.clear();
      const shared = regions.refusal === null ? regions.directory.ownTogether() : [];
      const products = shared.filter((product) => !this.#closed.has(product));
      for (let first = 0; first < products.length; first += limits.regionProductsAtOnce) {
        const some = await units.of(products.slice(first, first + limits.regionProductsAtOnce));
        for (const { product_id, status } of some) if (status === 'closed') this.#closed.add(product_id);
        await this.#compare(some.filter((one) => mayGive(one) || lacksUnits(one)));
      }
    } catch (error) {
      log.debug({ reason: String(error) }, 'regions were not balanced');
    }
  }

  /** Gives units to others, and notes what they have of products of which this region lacks units. */
  async #compare(own: readonly UnitsData[]): Promise<void> {
    const { regions, note, log } = this.deps;
    const asked = await Promise.all(
      regions.others.map(async ({ region, problem }) => {
        const products = own.map(({ product_id }) => product_id).filter((product) => this.#isSoldBy(region, product));
        if (products.length === 0 || problem !== null) return { region, theirs: [] };
        const theirs = await askUnits(regions, region, products).catch((error: unknown) => {
          log.debug({ region, reason: String(error) }, 'a region was not asked for its units');
          return [];
        });
        return { region, theirs };
      }),
    );
    const mine = new Map(own.map((one) => [one.product_id, one]));
    for (const { region, theirs } of asked) for (const one of theirs) await this.#giveTo(region, mine, one);
    for (const one of own) {
      const sellers = regions.others.filter(({ region }) => this.#isSoldBy(region, one.product_id));
      const replies = asked.flatMap(({ theirs }) => theirs.filter(({ product_id }) => product_id === one.product_id));
      const elsewhere = elsewhereOf(one, replies, sellers.length);
      if (elsewhere !== null) await note(one.product_id as ProductId, elsewhere);
    }
  }

  #isSoldBy(region: RegionName, product: string): boolean {
    return this.deps.regions.directory.sellersOf(product)?.includes(region) ?? false;
  }

  async #giveTo(region: RegionName, own: ReadonlyMap<string, UnitsData>, theirs: UnitsData): Promise<void> {
    const { regions, transfers, limits, log } = this.deps;
    const mine = own.get(theirs.product_id);
    const units = mine ? giftOf(mine, theirs, limits.regionBalanceAheadSeconds, regions.own < region) : 0;
    if (!mine || units === 0) return;
    mine.free = (mine.free ?? 0) - units;
    const product = theirs.product_id as ProductId;
    const id = this.#idOf(product, region);
    await transfers.give(product, { id, to: region, units }, ACTORS.balance).catch((error: unknown) =>
      // Usually another process began it with another number of units.
      log.debug({ product, region, reason: String(error) }, 'units were not given'),
    );
  }

  /** The same in all processes for the time between two looks. */
  #idOf(product: ProductId, region: RegionName): string {
    const look = Math.floor(this.deps.nowMs() / this.deps.limits.regionBalanceMs);
    const hex = createHash('sha256').update(`${product}|${this.deps.regions.own}|${region}|${look}`).digest('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
  }
}

/** Asks another region for its units. @throws RegionUnreachable, and Error if it replies with an error */
export async function askUnits(
  regions: Regions,
  region: RegionName,
  products: readonly string[],
): Promise<UnitsData[]> {
  const link = regions.linkTo(region);
  if (!link) throw new Error(`${region} cannot be reached`);
  const { method, path } = unitsContract;
  const headers = { ...regions.headersTo(region), 'content-type': 'application/json' };
  const { status, text } = await link.call({ method, path, headers, body: JSON.stringify({ product_ids: products }) });
  if (status !== 200) throw new Error(`${region} replied with ${status}`);
  return z.array(unitsData).parse((JSON.parse(text) as { data: unknown }).data);
}

const mayGive = ({ status, free, waiting }: Units): boolean =>
  status === 'open' && free !== null && free > 0 && waiting === 0;

/** Whether its line depends on what other regions have. */
const lacksUnits = ({ status, free, held, waiting }: Units): boolean =>
  status === 'open' && free !== null && (waiting > 0 || free + held === 0);

/**
 * What other regions have of a product of which a region lacks units: `units` that are free or may become so, `none`.
 * null = it is not known, or no line depends on it, as if the first user in line wants more than all regions have.
 * @param sellers how many other regions sell it
 */
export function elsewhereOf(own: Units, replies: readonly Units[], sellers: number): 'units' | 'none' | null {
  if (!lacksUnits(own)) return null;
  const selling = replies.filter(({ status }) => status !== 'closed');
  if (selling.some(({ free, held }) => free === null || free + held > 0))
    return replies.length === sellers && isHeadUnservable(own, selling) ? null : 'units';
  // Only a region that gave all of its units away needs to know that there are none.
  return own.total === 0 && replies.length === sellers ? 'none' : null;
}

/** Whether the first user in line wants more units than all regions have together, and this one has some for others. */
function isHeadUnservable(own: Units, selling: readonly Units[]): boolean {
  const left = ({ free, held }: Units) => (free ?? Number.POSITIVE_INFINITY) + held;
  const all = selling.reduce((sum, one) => sum + left(one), left(own));
  return left(own) > 0 && own.head_qty !== null && own.head_qty > all;
}

/**
 * How many units a region gives to another one: at most half of those that it does not sell itself in the next seconds,
 * so that it never gives away its last units at once and takes them back. One that has none left gets as much although
 * it has no line, because it refuses its users otherwise. While users wait in both, see `forGroupOf`.
 * @param aheadSeconds how far the pace of both is looked ahead
 * @param isFirst which of two regions comes first where neither has a better reason
 */
export function giftOf(own: Units, theirs: Units, aheadSeconds: number, isFirst: boolean): number {
  if (own.waiting > 0) return forGroupOf(theirs, own, isFirst);
  if (!mayGive(own) || theirs.status !== 'open' || own.free === null || theirs.free === null) return 0;
  // Units that are free while users wait are too few for a group.
  const usable = theirs.waiting > 0 ? 0 : theirs.free;
  const needed = theirs.waiting + theirs.confirmed_per_second * aheadSeconds - usable;
  const spare = own.free - own.confirmed_per_second * aheadSeconds;
  if (theirs.free + theirs.held + theirs.waiting === 0) return Math.max(0, Math.floor(spare / 2));
  return Math.max(0, Math.min(Math.ceil(needed), Math.ceil(spare / 2)));
}

/**
 * How many units a region whose own first user in line wants more than it has gives to the first one of another region:
 * those that are lacking, if both regions have enough together. Otherwise each would keep units that no user gets. If
 * they have enough for either of the two, the smaller group gets them.
 */
function forGroupOf(theirs: Units, own: Units, isFirst: boolean): number {
  if (own.status !== 'open' || theirs.status !== 'open' || !own.free || theirs.free === null) return 0;
  const [wanted, ownWanted, both] = [theirs.head_qty, own.head_qty, own.free + theirs.free];
  if (wanted === null || ownWanted === null || wanted > both) return 0;
  const isOwnServed = ownWanted <= both && (ownWanted < wanted || (ownWanted === wanted && isFirst));
  return isOwnServed ? 0 : wanted - theirs.free;
}
