import { LRUCache } from 'lru-cache';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { TermsVersion } from '../../shared/postgres/campaign-terms.js';

/** Where terms come from when they are not known. */
export type TermsSource = {
  current(product: ProductId): Promise<TermsVersion | null>;
  ofProduct(product: ProductId, version: number): Promise<TermsVersion | null>;
};

export type TermsCacheOptions = {
  /** Products, and versions, that are kept; the ones used longest ago go first. About 2 KB each. */
  capacity: number;
  /** How old an answer of `current` may be while Postgres can be asked. */
  freshMs: number;
  /** How long an answer waits for Postgres when an older one is known. */
  patienceMs: number;
  /** Any clock that only goes forward. */
  nowMs: () => number;
};

type Reading = { terms: TermsVersion | null; readAtMs: number };

/**
 * Terms as one process remembers them, so that a checked or used code costs no round trip to Postgres and a sale goes on
 * without it. A version never changes, so it is never read twice.
 */
export class TermsCache {
  readonly #current: LRUCache<ProductId, Reading>;
  readonly #versions: LRUCache<string, TermsVersion>;
  readonly #reading = new Map<string, Promise<TermsVersion | null>>();
  /** Counts calls of `forget`. */
  #forgotten = 0;

  constructor(
    readonly source: TermsSource,
    readonly options: TermsCacheOptions,
  ) {
    this.#current = new LRUCache({ max: options.capacity });
    this.#versions = new LRUCache({ max: options.capacity });
  }

  /**
   * The terms in force, at most `freshMs` old; with Postgres away or slow the last ones known.
   * @returns null when the product has no campaign
   * @throws EngineUnavailable when Postgres is away and the product is not known
   */
  async current(product: ProductId): Promise<TermsVersion | null> {
    const { nowMs, freshMs, patienceMs } = this.options;
    const known = this.#current.get(product);
    if (known && nowMs() - known.readAtMs < freshMs) return known.terms;
    const reading = this.#once(product, () => this.#readCurrent(product));
    if (!known) return reading;
    const asBefore = (): TermsVersion | null => {
      // No other call waits for it in the next moments.
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
    const before = this.#forgotten;
    const terms = await this.source.current(product);
    // What was read before a change was announced answers only the calls from before it.
    if (before === this.#forgotten) this.#current.set(product, { terms, readAtMs: this.options.nowMs() });
    if (terms) this.#versions.set(keyOf(product, terms.version), terms);
    return terms;
  }

  /**
   * The terms that were in force in this version, for instance the one that a script said it decided by.
   * @returns null when there is no such version
   * @throws EngineUnavailable when Postgres is away and this version is not known
   */
  async version(product: ProductId, version: number): Promise<TermsVersion | null> {
    const key = keyOf(product, version);
    const known = this.#versions.get(key);
    if (known) return known;
    return this.#once(key, async () => {
      const terms = await this.source.ofProduct(product, version);
      if (terms) this.#versions.set(key, terms);
      return terms;
    });
  }

  /**
   * The terms of a version that a script has named as the one in force. Older ones are forgotten.
   * @returns null while Postgres has not committed them
   * @throws EngineUnavailable when Postgres is away and this version is not known
   */
  async inForce(product: ProductId, version: number): Promise<TermsVersion | null> {
    const known = this.#current.get(product)?.terms;
    if (known && known.version < version) this.forget(product);
    return this.version(product, version);
  }

  /** Its terms have changed: the next question reads them again. */
  forget(product: ProductId): void {
    this.#forgotten += 1;
    this.#current.delete(product);
    this.#reading.delete(product);
  }

  /** News may have been missed. */
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

/** No product has a "|" in its id. */
const keyOf = (product: ProductId, version: number): string => `${product}|${version}`;
