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
  limits: { balanceMs: number; balanceAheadSeconds: number; productsAtOnce: number };
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
      for (let first = 0; first < products.length; first += limits.productsAtOnce) {
        const some = await units.of(products.slice(first, first + limits.productsAtOnce));
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
    for (const { region, theirs } of asked)
      for (const one of theirs) {
        const product = one.product_id;
        const all = asked.map((other) => ({
          region: other.region,
          units: other.theirs.find(({ product_id }) => product_id === product),
        }));
        const first = servedFirst([...all, { region: regions.own, units: mine.get(product) }]);
        await this.#giveTo(region, mine.get(product), one, first === region);
      }
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

  async #giveTo(
    region: RegionName,
    mine: UnitsData | undefined,
    theirs: UnitsData,
    isServedFirst: boolean,
  ): Promise<void> {
    const { transfers, limits, log } = this.deps;
    const units = mine ? giftOf(mine, theirs, limits.balanceAheadSeconds, isServedFirst) : 0;
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
    const look = Math.floor(this.deps.nowMs() / this.deps.limits.balanceMs);
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

/** Users in line. While all are away, others get the units. */
const waitingIn = ({ waiting, nobody_there }: Units): number => (nobody_there ? 0 : waiting);

const mayGive = (units: Units): boolean =>
  units.status === 'open' && units.free !== null && units.free > 0 && waitingIn(units) === 0;

/** Whether its line depends on what other regions have. */
const lacksUnits = (units: Units): boolean =>
  units.status === 'open' && units.free !== null && (waitingIn(units) > 0 || units.free + units.held === 0);

/** What is left in a region for others. A region without limit gives nothing. */
const leftIn = ({ free, held }: Units): number => (free === null ? 0 : free + held);

/**
 * What other regions have of a product of which a region lacks units: `units` that are free or may become so, `none`.
 * null = it is not known, or no line depends on it, as if the first user in line wants more than all regions have.
 * @param sellers how many other regions sell it
 */
export function elsewhereOf(own: Units, replies: readonly Units[], sellers: number): 'units' | 'none' | null {
  if (!lacksUnits(own)) return null;
  const selling = replies.filter(({ status }) => status !== 'closed');
  if (selling.some((one) => leftIn(one) > 0))
    return replies.length === sellers && isHeadUnservable(own, selling) ? null : 'units';
  // Only a region that gave all of its units away needs to know that there are none.
  return own.total === 0 && replies.length === sellers ? 'none' : null;
}

/** Whether the first user in line wants more units than all regions have together, and this one has some for others. */
function isHeadUnservable(own: Units, selling: readonly Units[]): boolean {
  const all = selling.reduce((sum, one) => sum + leftIn(one), leftIn(own));
  return leftIn(own) > 0 && own.head_qty !== null && own.head_qty > all;
}

/**
 * How many units a region gives to another one: at most half of those that it does not sell itself in the next seconds,
 * so that it never gives away its last units at once and takes them back. One that has none left gets as much although
 * it has no line, because it refuses its users otherwise. While its own first user wants more than it has, it gives to
 * the region that is `servedFirst`: otherwise each would keep units that no user gets.
 * @param aheadSeconds how far the pace of both is looked ahead
 */
export function giftOf(own: Units, theirs: Units, aheadSeconds: number, isServedFirst: boolean): number {
  if (own.status !== 'open' || theirs.status !== 'open' || own.free === null || theirs.free === null) return 0;
  if (waitingIn(own) > 0)
    return isServedFirst && own.head_qty !== null
      ? Math.max(0, Math.min(own.free, (theirs.head_qty ?? 0) - theirs.free))
      : 0;
  const waiting = waitingIn(theirs);
  // Units that are free while users wait are too few for a group.
  const usable = waiting > 0 ? 0 : theirs.free;
  const needed = waiting + theirs.confirmed_per_second * aheadSeconds - usable;
  const spare = own.free - own.confirmed_per_second * aheadSeconds;
  if (theirs.free + theirs.held + waiting === 0) return Math.max(0, Math.floor(spare / 2));
  return Math.max(0, Math.min(Math.ceil(needed), Math.ceil(spare / 2)));
}

/**
 * The region whose first user in line gets the units of all regions, where each first user wants more than their region
 * has: the smallest group that all have enough for, or of equal ones that of the first name.
 * @returns null = they have too few for each of them
 */
export function servedFirst(all: readonly { region: RegionName; units: Units | undefined }[]): RegionName | null {
  const open = all.flatMap(({ region, units }) => (units?.status === 'open' ? [{ region, units }] : []));
  const free = open.reduce((sum, { units }) => sum + (units.free ?? 0), 0);
  const groups = open.flatMap(({ region, units: { head_qty: qty } }) =>
    qty !== null && qty <= free ? [{ region, qty }] : [],
  );
  groups.sort((a, b) => a.qty - b.qty || (a.region < b.region ? -1 : 1));
  return groups[0]?.region ?? null;
}
