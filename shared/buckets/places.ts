import type { ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { Sales } from '../sale/sales.js';
import type { PositionsOutcome, ShopperStatusOutcome } from '../sale/scripts/line.js';
import type { LinePlaces } from '../sale/waiting-line.js';
import { type BucketRanks, countBefore, EXACT_RANKS, LATER_RANKS } from './ranks.js';

/** A position among the users of all buckets, from 1. `positionError`: by how many places it may be wrong. */
export type LinePosition = { position: number; positionError: number; queueSize: number };

/** `last`: the highest number that was drawn. `buckets`: null = the bucket could not be read. */
type Table = { readAt: number; last: number; buckets: (BucketRanks | null)[] };

/** Larger gaps are those that a new history leaves (lua/draw_numbers.lua). */
const MOST_DRAWN_MEANWHILE = 500_000;

/**
 * Positions in the lines of divided campaigns. Each bucket returns the numbers at some ranks, which are read again when
 * they are older than `freshMs`. So a position costs no call: that of the first thousand users is exact, a later one
 * differs by a few places.
 */
export class Places implements LinePlaces {
  readonly #tables = new Map<ProductId, Table>();
  readonly #reading = new Map<ProductId, Promise<Table>>();
  /** Numbers of this process whose users the table may lack. */
  readonly #drawn = new Map<ProductId, { lineNo: number; joinedAt: number }[]>();

  constructor(
    readonly sales: Sales,
    readonly limits: { placesFreshMs: number },
  ) {}

  /**
   * @param lineNo of a waiting user, or one that was just drawn
   * @throws EngineUnavailable when no bucket can be read
   */
  async at(product: ProductId, lineNo: number): Promise<LinePosition> {
    const { readAt, last, buckets } = await this.#table(product);
    let [before, error, waiting] = [0, 0, 0];
    for (const ranks of buckets) {
      if (ranks === null) continue;
      const counted = countBefore(ranks, lineNo);
      before += counted.before;
      error += counted.error;
      waiting += ranks.waiting;
    }
    const own = (this.#drawn.get(product) ?? []).filter((one) => one.lineNo < lineNo && one.joinedAt >= readAt);
    // Numbers after the last one of the table that this process has not drawn were drawn by others.
    const since = lineNo - last - 1;
    const others = since < MOST_DRAWN_MEANWHILE ? since - own.filter((one) => one.lineNo > last).length : 0;
    const position = before + own.length + Math.max(0, others) + 1;
    return { position, positionError: error, queueSize: Math.max(position, waiting) };
  }

  /** Counts a number whose user is about to join the line. Each call needs one `joined`. */
  drawn(product: ProductId, lineNo: number): void {
    const drawn = this.#drawn.get(product) ?? [];
    this.#drawn.set(product, drawn);
    drawn.push({ lineNo, joinedAt: Number.POSITIVE_INFINITY });
  }

  /** @param isUsed whether the user has joined the line with the number */
  joined(product: ProductId, lineNo: number, isUsed: boolean): void {
    const found = this.#drawn.get(product)?.find((one) => one.lineNo === lineNo);
    if (found) found.joinedAt = isUsed ? performance.now() : Number.NEGATIVE_INFINITY;
  }

  isDivided(product: ProductId): boolean {
    return this.sales.map.bucketsOf(product) > 1;
  }

  /** Replaces the line number in a standing by the position. */
  async ofStanding(product: ProductId, reply: Promise<ShopperStatusOutcome>): Promise<ShopperStatusOutcome> {
    const standing = await reply;
    if (standing.kind !== 'standing') return standing;
    if (standing.status !== 'queued') return { ...standing, queueSize: await this.queueSize(product) };
    const paceMs = this.#paceOf(product, standing.paceMs);
    return { ...standing, ...(await this.at(product, standing.position)), paceMs };
  }

  /** Replaces the line numbers of users by their positions. */
  async ofPositions(product: ProductId, reply: Promise<PositionsOutcome>): Promise<PositionsOutcome> {
    const outcome = await reply;
    if (outcome.kind !== 'positions') return outcome;
    const places = await Promise.all(
      outcome.positions.map((lineNo) => (lineNo === 0 ? null : this.at(product, lineNo))),
    );
    return {
      ...outcome,
      positions: places.map((place) => place?.position ?? 0),
      errors: places.map((place) => place?.positionError ?? 0),
      queueSize: await this.queueSize(product),
      paceMs: this.#paceOf(product, outcome.paceMs),
    };
  }

  /** The line is served by all buckets, each about as often. */
  #paceOf(product: ProductId, paceMs: number | null): number | null {
    return paceMs && Math.max(1, Math.round(paceMs / this.sales.map.bucketsOf(product)));
  }

  /** The users who wait in all buckets. */
  async queueSize(product: ProductId): Promise<number> {
    const { buckets } = await this.#table(product);
    return buckets.reduce((sum, ranks) => sum + (ranks?.waiting ?? 0), 0);
  }

  async #table(product: ProductId): Promise<Table> {
    const known = this.#tables.get(product);
    if (known && performance.now() - known.readAt < this.limits.placesFreshMs) return known;
    let reading = this.#reading.get(product);
    if (!reading) {
      reading = this.#read(product, known).finally(() => this.#reading.delete(product));
      this.#reading.set(product, reading);
    }
    return reading;
  }

  async #read(product: ProductId, known: Table | undefined): Promise<Table> {
    const readAt = performance.now();
    const results = await Promise.allSettled(
      this.sales.all(product).map((store) => store.buckets.places(product, EXACT_RANKS, LATER_RANKS)),
    );
    const failed = results.find((result) => result.status === 'rejected');
    if (failed && results.every(({ status }) => status === 'rejected'))
      throw EngineUnavailable.from('redis', failed.reason);
    const buckets = results.map((result, bucket) => {
      if (result.status === 'rejected') return known?.buckets[bucket] ?? null;
      return result.value.kind === 'places' ? result.value : null;
    });
    const [first] = results;
    const last = first?.status === 'fulfilled' && first.value.kind === 'places' ? first.value.lastLineNo : known?.last;
    const table = { readAt, last: last ?? 0, buckets };
    this.#tables.set(product, table);
    this.#drawn.set(
      product,
      (this.#drawn.get(product) ?? []).filter(({ joinedAt }) => joinedAt >= readAt),
    );
    return table;
  }
}
