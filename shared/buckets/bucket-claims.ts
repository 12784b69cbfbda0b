import { setTimeout as sleep } from 'node:timers/promises';
import { FIRST_BUCKET, homeCodes } from '../domain/buckets.js';
import type { CampaignId, ProductId } from '../domain/ids.js';
import { givable, planFetch } from '../domain/rounds.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { UnitFetch } from '../sale/reservations.js';
import type { ReserveInput } from '../sale/reserve-input.js';
import type { Sales } from '../sale/sales.js';
import type { BucketHeads } from '../sale/scripts/buckets.js';
import type { ReserveOutcome, StoreReserveOutcome } from '../sale/scripts/reserve.js';
import type { Places } from './places.js';
import type { InTransit, Transfers } from './transfers.js';

/** The bucket of a user seals, draws and decides in three calls; more are only needed when other users come first. */
const TRIES = 50;
/** The pause between two looks at a campaign that has no free unit. Claims meanwhile share the next one. */
const NOTHING_FREE_MS = 20;
/** The pause before units that are on their way are looked for again. */
const ON_THEIR_WAY_MS = 10;

/** The stock of all buckets, read after the claims that use it arrived. */
type Look = { stocks: Pick<BucketHeads, 'total' | 'free' | 'codes'>[]; arrive: () => Promise<InTransit> };
/** The looks at one campaign. `next`: has not begun. `pauseUntil`: by the monotonic clock. */
type Looks = { running: Promise<unknown>; next: Promise<Look> | null; pauseUntil: number };

/**
 * Claims in divided campaigns for which the bucket of the user has no unit (docs/buckets.md). With a waiting room all
 * buckets are sealed, and the user gets the next number of the one line. Without one, units are fetched from other
 * buckets.
 */
export class BucketClaims implements UnitFetch {
  /** Campaigns whose buckets have all confirmed to this process that they are sealed. */
  readonly #sealed = new Set<ProductId>();
  readonly #sealing = new Map<ProductId, Promise<void>>();
  /** By campaign and bucket. */
  readonly #fetching = new Map<string, Promise<boolean>>();
  /**
   * Users who join a line, by campaign and user. A user draws one number at a time, because positions of others count
   * the numbers that are drawn.
   */
  readonly #joining = new Map<string, Promise<ReserveOutcome>>();
  readonly #looks = new Map<ProductId, Looks>();

  constructor(
    readonly sales: Sales,
    readonly places: Places,
    readonly transfers: Transfers,
    readonly limits: { claimMs: number },
  ) {}

  /**
   * Completes a claim. @param first the decision of the user's bucket
   * @throws EngineUnavailable when a bucket that is needed cannot be used, or when units do not arrive in
   *   `claimMs`; they go on, and a retry finds them
   */
  async decide(input: ReserveInput, first: StoreReserveOutcome): Promise<ReserveOutcome> {
    if (first.kind !== 'draw' || first.lineNo !== null) return this.#decideAll(input, first);
    const { product, user } = input.claim;
    const name = `${product} ${user}`;
    const earlier = this.#joining.get(name);
    if (earlier) {
      await earlier.catch(() => {});
      return this.decide(input, await this.sales.of(product, this.sales.bucketOf(product, user)).claims.reserve(input));
    }
    const joining = this.#decideAll(input, first).finally(() => this.#joining.delete(name));
    this.#joining.set(name, joining);
    return joining;
  }

  async #decideAll(input: ReserveInput, first: StoreReserveOutcome): Promise<ReserveOutcome> {
    const { product } = input.claim;
    const drawn: number[] = [];
    let outcome: ReserveOutcome | null = null;
    try {
      outcome = await this.#decide(input, first, drawn);
      return outcome;
    } finally {
      for (const lineNo of drawn) this.places.joined(product, lineNo, outcome?.kind === 'queued');
    }
  }

  /** @throws EngineUnavailable when a bucket or Postgres cannot be used, or when units do not arrive in time */
  fetchUnit(product: ProductId, bucket: number): Promise<boolean> {
    return inTime(performance.now() + this.limits.claimMs, product, this.#fetch(product, bucket, 1));
  }

  /** @param drawn gets the numbers that are drawn */
  async #decide(input: ReserveInput, first: StoreReserveOutcome, drawn: number[]): Promise<ReserveOutcome> {
    const { product, user } = input.claim;
    const bucket = this.sales.bucketOf(product, user);
    const until = performance.now() + this.limits.claimMs;
    let claim = input;
    let outcome = first;
    for (let tries = 0; tries < TRIES; tries += 1) {
      switch (outcome.kind) {
        case 'short':
          this.#sealed.delete(product);
          await this.#seal(product);
          break;
        case 'draw':
          claim = { ...input, bucket: await this.#placeFor(product, outcome.lineNo, drawn) };
          break;
        case 'empty':
          if (!(await inTime(until, product, this.#fetch(product, bucket, input.claim.qty))))
            return { kind: 'sold_out' };
          break;
        default:
          return outcome;
      }
      outcome = await this.sales.of(product, bucket).claims.reserve(claim);
    }
    throw new EngineUnavailable('redis', `the buckets of ${product} change too fast`);
  }

  /** @param known number of a user who waits already; null = a new one is drawn */
  async #placeFor(
    product: ProductId,
    known: number | null,
    drawn: number[],
  ): Promise<NonNullable<ReserveInput['bucket']>> {
    // No user waits before every bucket is sealed, so no bucket serves another user directly while one waits.
    if (!this.#sealed.has(product)) await this.#seal(product);
    const lineNo = known ?? (await this.#draw(product, drawn));
    // A known number is not passed on: a user who leaves or is promoted meanwhile would join again with it.
    const place = { lineNo: known === null ? lineNo : null, ...(await this.places.at(product, lineNo)) };
    return { buckets: this.sales.map.bucketsOf(product), place };
  }

  async #draw(product: ProductId, drawn: number[]): Promise<number> {
    const lineNo = await this.sales.of(product, FIRST_BUCKET).buckets.draw(product);
    this.places.drawn(product, lineNo);
    drawn.push(lineNo);
    return lineNo;
  }

  #seal(product: ProductId): Promise<void> {
    let sealing = this.#sealing.get(product);
    if (!sealing) {
      sealing = this.#sealAll(product).finally(() => this.#sealing.delete(product));
      this.#sealing.set(product, sealing);
    }
    return sealing;
  }

  async #sealAll(product: ProductId): Promise<void> {
    const stores = this.sales.all(product);
    // While a bucket is away the line cannot begin. A sealed bucket would not sell either, so none is sealed.
    const heads = await Promise.all(stores.map((store) => store.buckets.heads(product, 0)));
    if (heads.some(({ kind }) => kind !== 'heads')) throw lacksBucket(product);
    const outcomes = await Promise.all(stores.map((store) => store.buckets.seal(product)));
    if (outcomes.some(({ kind }) => kind !== 'sealed')) throw lacksBucket(product);
    this.#sealed.add(product);
  }

  /**
   * Fetches units into a bucket, with their codes in a pool.
   * @returns false when no bucket had any at a moment after this call
   */
  async #fetch(product: ProductId, bucket: number, units: number): Promise<boolean> {
    const name = `${product} ${bucket}`;
    // One that runs already may have read the buckets before this call, so only units that it found count.
    if (await this.#fetching.get(name)) return true;
    let fetching = this.#fetching.get(name);
    if (!fetching) {
      const id = this.sales.map.dividedId(product);
      fetching = (id ? this.#fetchFrom(product, id, bucket, units) : Promise.resolve(false)).finally(() =>
        this.#fetching.delete(name),
      );
      this.#fetching.set(name, fetching);
    }
    return fetching;
  }

  async #fetchFrom(product: ProductId, id: CampaignId, bucket: number, units: number): Promise<boolean> {
    const { stocks, arrive } = await this.#look(product, id);
    const plan = planFetch(stocks.map(ofPlan), bucket, units);
    if (plan === 'here') return true;
    // Needs Postgres, like a transfer, so no unit leaves a bucket while Postgres is away.
    const { total } = await arrive();
    if (plan !== 'nothing') {
      await this.transfers.move(product, id, [plan]);
      return true;
    }
    // Those that have arrived in Redis are still on their way in Postgres, until it has the entry.
    const underWay = (total ?? 0) - stocks.reduce((sum, one) => sum + one.total, 0) + codesUnderWay(stocks);
    if (underWay > 0) {
      await sleep(ON_THEIR_WAY_MS);
      return true;
    }
    return false;
  }

  /**
   * Reads all buckets after this call. All buckets of a campaign share a look, so that a flood of claims for a campaign
   * without units costs at most one look in `NOTHING_FREE_MS`.
   */
  #look(product: ProductId, id: CampaignId): Promise<Look> {
    const looks = this.#looks.get(product) ?? { running: Promise.resolve(), next: null, pauseUntil: 0 };
    this.#looks.set(product, looks);
    looks.next ??= this.#lookNext(product, id, looks);
    return looks.next;
  }

  async #lookNext(product: ProductId, id: CampaignId, looks: Looks): Promise<Look> {
    await looks.running;
    const pauseMs = looks.pauseUntil - performance.now();
    if (pauseMs > 0) await sleep(pauseMs);
    looks.next = null;
    const reading = Promise.all(this.sales.all(product).map((store) => store.buckets.heads(product, 0)));
    looks.running = reading.catch(() => {});
    const stocks = (await reading).map((one) => (one.kind === 'heads' ? one : { total: 0, free: 0, codes: null }));
    if (givable(stocks.map(ofPlan)) === 0) looks.pauseUntil = performance.now() + NOTHING_FREE_MS;
    let arriving: Promise<InTransit> | null = null;
    const arrive = () => {
      arriving ??= this.transfers.arrive(product, id);
      return arriving;
    };
    return { stocks, arrive };
  }
}

const ofPlan = ({ free, codes }: Pick<BucketHeads, 'free' | 'codes'>) => ({ free, codes: codes?.unused ?? null });

/**
 * Codes of a pool that have left a bucket and not arrived in another one: those at home in the buckets, as far as each
 * knows them, without those that the buckets have.
 */
function codesUnderWay(buckets: readonly Pick<BucketHeads, 'codes'>[]): number {
  return buckets.reduce(
    (sum, { codes }, bucket) => sum + (codes ? homeCodes(codes.known, bucket, buckets.length) - codes.own : 0),
    0,
  );
}

/** @param until by the monotonic clock @throws EngineUnavailable when it has passed */
async function inTime<Value>(until: number, product: ProductId, work: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const giveUp = () => reject(new EngineUnavailable('postgres', `units of ${product} are still on their way`));
    timer = setTimeout(giveUp, until - performance.now());
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

const lacksBucket = (product: ProductId) => new EngineUnavailable('redis', `it lacks a bucket of ${product}`);
