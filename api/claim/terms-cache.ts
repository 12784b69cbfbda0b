import { LRUCache } from 'lru-cache';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { TermsVersion } from '../../shared/postgres/campaign-terms.js';
import { ofHistory } from '../../shared/sale/of-history.js';

/** Source of terms that are not cached. */
export type TermsSource = {
  current(product: ProductId): Promise<TermsVersion | null>;
  ofProduct(product: ProductId, version: number): Promise<TermsVersion | null>;
};

export type TermsCacheOptions = {
  /** Maximum number of products, and also of versions. The least recently used are evicted. About 2 KB each. */
  capacity: number;
  /** Maximum age of the terms that `current` returns while Postgres is available. */
  freshMs: number;
  /** How long `current` waits for Postgres if older terms are cached. */
  patienceMs: number;
  /** A monotonic clock, milliseconds. */
  nowMs: () => number;
  /** As of `ofHistory`: a version keeps its terms only within a history. */
  generation: () => string;
  /** Called for each lookup, with where the terms were. */
  onLookup?: (from: 'memory' | 'postgres') => void;
};

type Reading = { terms: TermsVersion | null; readAtMs: number };

/**
 * Caches the terms of campaigns in one process, so that checking or redeeming a code costs no round trip to Postgres
 * and a sale continues without Postgres. A version never changes within a history of Redis, so it is read once.
 */
export class TermsCache {
  readonly #current: LRUCache<ProductId, Reading>;
  readonly #versions: LRUCache<string, TermsVersion>;
  readonly #reading = new Map<string, Promise<TermsVersion | null>>();
  readonly #history: () => string;
  /** Counts calls of `forget`. */
  #forgotten = 0;

  constructor(
    readonly source: TermsSource,
    readonly options: TermsCacheOptions,
  ) {
    this.#current = new LRUCache({ max: options.capacity });
    this.#versions = new LRUCache({ max: options.capacity });
    this.#history = ofHistory(options.generation, () => {
      this.forgetAll();
      this.#versions.clear();
    });
  }

  /**
   * Returns the terms in force, at most `freshMs` old, or the cached ones if Postgres is unavailable or slow.
   * @returns null = the product has no campaign
   * @throws EngineUnavailable if Postgres is unavailable and the product is not cached
   */
  async current(product: ProductId): Promise<TermsVersion | null> {
    const { nowMs, freshMs, patienceMs, onLookup } = this.options;
    this.#history();
    const known = this.#current.get(product);
    const isFresh = known !== undefined && nowMs() - known.readAtMs < freshMs;
    onLookup?.(isFresh ? 'memory' : 'postgres');
    if (isFresh) return known.terms;
    const reading = this.#once(product, () => this.#readCurrent(product));
    if (!known) return reading;
    const asBefore = (): TermsVersion | null => {
      // The next calls return the cached terms at once instead of waiting as well.
      known.readAtMs = nowMs();
      return known.terms;
    };
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<TermsVersion | null>((resolve) => {
      timer = setTimeout(() => resolve(asBefore()), patienceMs);
    });
    const read = reading.catch((error: unknown) => {
      if (error instanceof EngineUnavailable) return asBefore();
      throw error;
    });
    return Promise.race([read, late]).finally(() => clearTimeout(timer));
  }

  async #readCurrent(product: ProductId): Promise<TermsVersion | null> {
    const [before, history] = [this.#forgotten, this.#history()];
    const terms = await this.source.current(product);
    if (this.#history() !== history) return terms;
    // Terms that were read before a change was announced are returned to the waiting calls, but not cached.
    if (before === this.#forgotten) this.#current.set(product, { terms, readAtMs: this.options.nowMs() });
    if (terms) this.#versions.set(keyOf(product, terms.version), terms);
    return terms;
  }

  /**
   * Returns the terms of a version, for instance of the one that a script used.
   * @returns null = no such version
   * @throws EngineUnavailable if Postgres is unavailable and the version is not cached
   */
  async version(product: ProductId, version: number): Promise<TermsVersion | null> {
    const [key, history] = [keyOf(product, version), this.#history()];
    const known = this.#versions.get(key);
    this.options.onLookup?.(known ? 'memory' : 'postgres');
    if (known) return known;
    return this.#once(key, async () => {
      const terms = await this.source.ofProduct(product, version);
      if (terms && this.#history() === history) this.#versions.set(key, terms);
      return terms;
    });
  }

  /**
   * Returns the terms under which a promise was made.
   * @throws EngineUnavailable also if Postgres lacks the version, because it was set back
   */
  async promised(product: ProductId, version: number): Promise<TermsVersion> {
    const terms = await this.version(product, version);
    if (!terms) throw new EngineUnavailable('postgres', `it lacks version ${version} of the terms of ${product}`);
    return terms;
  }

  /**
   * Returns the terms of the version that a script reported as in force, and evicts older ones.
   * @returns null = Postgres has not committed them yet
   * @throws EngineUnavailable if Postgres is unavailable and the version is not cached
   */
  async inForce(product: ProductId, version: number): Promise<TermsVersion | null> {
    const known = this.#current.get(product)?.terms;
    if (known && known.version < version) this.forget(product);
    return this.version(product, version);
  }

  /** Evicts the current terms of a product after a change. */
  forget(product: ProductId): void {
    this.#forgotten += 1;
    this.#current.delete(product);
    this.#reading.delete(product);
  }

  /** Evicts all current terms, because a notification may have been missed. */
  forgetAll(): void {
    this.#forgotten += 1;
    this.#current.clear();
    this.#reading.clear();
  }

  /** Calls for the same terms share one read. */
  #once(key: string, read: () => Promise<TermsVersion | null>): Promise<TermsVersion | null> {
    const reading = this.#reading.get(key) ?? read().finally(() => this.#reading.delete(key));
    this.#reading.set(key, reading);
    return reading;
  }
}

/** A product id never contains "|". */
const keyOf = (product: ProductId, version: number): string => `${product}|${version}`;
