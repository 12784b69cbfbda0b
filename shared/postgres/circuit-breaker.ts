import type pg from 'pg';
import { EngineUnavailable } from '../errors/faults.js';
import type { Database, Prepared } from './pool.js';

export type CircuitBreakerOptions = {
  /** Reads that fail one after the other before the breaker opens. */
  failures: number;
  /** How long it refuses all reads. Then it lets one through, and closes if Postgres answers. */
  openMs: number;
  /** Monotonic, in ms. */
  nowMs?: () => number;
};

/**
 * What only reads need of a database. `latest`: reads that have what was committed just now, where `query` may lack it;
 * undefined = `query` has it.
 */
export type Reads = Pick<Database, 'query'> & { readonly latest?: Reads };

/**
 * Refuses reads of Postgres at once while it is away or too slow. Without it, each read would wait for its time limit
 * and hold one of the few connections meanwhile. It is for reads that a request can do without: their terms and codes
 * may be in memory, and the response is 503 otherwise. Writes, transactions and reports of this process never pass it.
 */
export class CircuitBreaker {
  #failures = 0;
  /** Changes when the breaker opens or closes, so that calls from before say nothing more. */
  #state = 0;
  #isOpen = false;
  #openUntil = 0;
  #isTrying = false;
  readonly #nowMs: () => number;

  constructor(readonly options: CircuitBreakerOptions) {
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** Whether it refuses reads, or waits for the outcome of the one that it lets through. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Returns the reads of a database that pass this breaker. */
  readsOf(database: Reads): Reads {
    return {
      query: <Row extends pg.QueryResultRow>(sql: string | Prepared, values?: unknown[]) =>
        this.run(() => database.query<Row>(sql, values)),
    };
  }

  /** @throws EngineUnavailable if it is open, or if Postgres does not answer */
  async run<Value>(read: () => Promise<Value>): Promise<Value> {
    const isTrial = this.#isOpen;
    if (isTrial && (this.#isTrying || this.#nowMs() < this.#openUntil))
      throw new EngineUnavailable('postgres', 'Postgres has failed several times in a row and is not asked now');
    if (isTrial) this.#isTrying = true;
    const state = this.#state;
    try {
      const value = await read();
      if (state === this.#state) this.#answered();
      return value;
    } catch (error) {
      // A refusal of Postgres itself is an answer.
      if (state === this.#state && error instanceof EngineUnavailable) this.#failed();
      else if (state === this.#state) this.#answered();
      throw error;
    } finally {
      if (isTrial) this.#isTrying = false;
    }
  }

  #answered(): void {
    this.#failures = 0;
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#state += 1;
  }

  #failed(): void {
    this.#failures += 1;
    if (this.#failures < this.options.failures) return;
    this.#openUntil = this.#nowMs() + this.options.openMs;
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#state += 1;
  }
}
