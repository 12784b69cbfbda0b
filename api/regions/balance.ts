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
        const own = new Map(some.filter((one) => mayGive(one)).map((one) => [one.product_id, one] as const));
        for (const { region, problem } of regions.others) if (problem === null) await this.#giveTo(region, own);
      }
    } catch (error) {
      log.debug({ reason: String(error) }, 'regions were not balanced');
    }
  }

  async #giveTo(region: RegionName, own: ReadonlyMap<string, UnitsData>): Promise<void> {
    const { regions, transfers, limits, log } = this.deps;
    const products = [...own.keys()].filter((product) => regions.directory.sellersOf(product)?.includes(region));
    if (products.length === 0) return;
    for (const theirs of await askUnits(regions, region, products)) {
      const mine = own.get(theirs.product_id);
      const units = mine ? giftOf(mine, theirs, limits.regionBalanceAheadSeconds) : 0;
      if (!mine || units === 0) continue;
      mine.free = (mine.free ?? 0) - units;
      const product = theirs.product_id as ProductId;
      const id = this.#idOf(product, region);
      await transfers.give(product, { id, to: region, units }, ACTORS.balance).catch((error: unknown) =>
        // Usually another process began it with another number of units.
        log.debug({ product, region, reason: String(error) }, 'units were not given'),
      );
    }
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

/**
 * How many units a region gives to another one: at most half of those that it does not sell itself in the next seconds,
 * so that it never gives away its last units at once and takes them back. One that has none left gets as much although
 * it has no line, because it refuses its users otherwise.
 * @param aheadSeconds how far the pace of both is looked ahead
 */
export function giftOf(own: Units, theirs: Units, aheadSeconds: number): number {
  if (!mayGive(own) || theirs.status !== 'open' || own.free === null || theirs.free === null) return 0;
  // Units that are free while users wait are too few for a group.
  const usable = theirs.waiting > 0 ? 0 : theirs.free;
  const needed = theirs.waiting + theirs.confirmed_per_second * aheadSeconds - usable;
  const spare = own.free - own.confirmed_per_second * aheadSeconds;
  if (theirs.free + theirs.held + theirs.waiting === 0) return Math.max(0, Math.floor(spare / 2));
  return Math.max(0, Math.min(Math.ceil(needed), Math.ceil(spare / 2)));
}
