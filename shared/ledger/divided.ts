import type { Stock } from '../domain/campaign.js';
import type { CampaignId, ProductId } from '../domain/ids.js';
import type { CampaignBuckets } from '../postgres/campaign-buckets.js';
import { keys } from '../redis/keys.js';
import { LineReader, type Place } from '../sale/line-reader.js';
import type { ReservationRecord } from '../sale/reservation-record.js';
import type { Archived, SaleReader } from '../sale/sale-reader.js';
import type { LedgerPart, LedgerSale } from './compare.js';

type Part = LedgerPart & { sale: SaleReader };

/**
 * All buckets of a divided campaign, in the form in which the ledger compares a campaign: the sums of their counters,
 * and their records together.
 */
export class DividedSale implements LedgerSale {
  constructor(
    readonly parts: readonly Part[],
    readonly table: Pick<CampaignBuckets, 'inTransit'>,
    readonly campaignId: CampaignId,
  ) {}

  /** Units on their way between buckets are free. */
  async stock(product: ProductId): Promise<Stock | null> {
    const stocks = await Promise.all(this.parts.map(({ sale }) => sale.stock(product)));
    const { transfers } = await this.table.inTransit(this.campaignId);
    const moving = transfers.reduce((sum, { units }) => sum + units, 0);
    const [first] = stocks;
    if (!first || stocks.includes(null)) return null;
    const sum = (name: Exclude<keyof Stock, 'status'>) => stocks.reduce((units, one) => units + (one?.[name] ?? 0), 0);
    return {
      status: first.status,
      total: first.total === null ? null : sum('total') + moving,
      free: first.free === null ? null : sum('free') + moving,
      ...{ held: sum('held'), redeemed: sum('redeemed'), burned: sum('burned'), waiting: sum('waiting') },
    };
  }

  /** Also while only some buckets are archived: then Redis does not have all records. */
  async archived(product: ProductId): Promise<Archived | null> {
    const found = await Promise.all(
      this.parts.map(async ({ sale }) => {
        const archived = await sale.archived(product);
        return {
          archived,
          promised: archived?.promised ?? (await sale.scripts.redis.hlen(keys.reservations(product))),
        };
      }),
    );
    if (found.every(({ archived }) => archived === null)) return null;
    return {
      pass: found.map(({ archived }) => archived?.pass ?? '').join(','),
      promised: found.reduce((sum, { promised }) => sum + promised, 0),
    };
  }

  async *reservations(product: ProductId, batch: number): AsyncGenerator<ReadonlyMap<string, ReservationRecord>> {
    for (const { sale } of this.parts) yield* sale.reservations(product, batch);
  }

  /** Reads every bucket, so that a record in a wrong one is found too. */
  async reservationsById(product: ProductId, ids: readonly string[]): Promise<ReadonlyMap<string, ReservationRecord>> {
    const found = await Promise.all(this.parts.map(({ sale }) => sale.reservationsById(product, ids)));
    return new Map(found.flatMap((records) => [...records]));
  }

  readonly line = {
    places: (product: ProductId, batch: number) => this.#places(product, batch),
    placesOf: async (product: ProductId, users: readonly string[]): Promise<ReadonlyMap<string, Place>> => {
      const found = await Promise.all(this.#lines().map((line) => line.placesOf(product, users)));
      return new Map(found.flatMap((places) => [...places]));
    },
  };

  async *#places(product: ProductId, batch: number): AsyncGenerator<ReadonlyMap<string, Place>> {
    for (const line of this.#lines()) yield* line.places(product, batch);
  }

  #lines(): LineReader[] {
    return this.parts.map(({ sale }) => new LineReader(sale.scripts));
  }
}
