import DataLoader from 'dataloader';
import { LRUCache } from 'lru-cache';
import type { Code } from '../../shared/domain/codes.js';
import type { Reads } from '../../shared/postgres/circuit-breaker.js';
import type { CodesTable, FoundCode } from '../../shared/postgres/codes.js';
import { ofHistory } from '../../shared/sale/of-history.js';

/** Maximum number of codes per statement. */
const BATCH = 500;
/** Maximum number of cached codes, about 300 bytes each. */
const REMEMBERED = 50_000;

/**
 * Finds the campaign and the number of a code. An issued code never changes and is cached; an unknown code is not,
 * because it may be issued at any time. Concurrent look-ups share one statement.
 */
export class CodeLookup {
  readonly #found = new LRUCache<Code, FoundCode>({ max: REMEMBERED });
  readonly #loader: DataLoader<Code, FoundCode | null>;

  readonly #history: () => string;

  /** @param generation as of `ofHistory`: an issued code keeps its number only within a history */
  constructor(codes: CodesTable, reads: Reads, generation: () => string) {
    this.#history = ofHistory(generation, () => this.#found.clear());
    this.#loader = new DataLoader(
      async (asked) => {
        const found = new Map(await codes.find(asked, reads));
        // The filter knows them all, so what a replica lacks was issued just now, or is one of few false positives.
        const missing = reads.latest ? asked.filter((code) => !found.has(code)) : [];
        if (missing.length > 0) for (const [code, one] of await codes.find(missing, reads.latest)) found.set(code, one);
        return asked.map((code) => found.get(code) ?? null);
      },
      { cache: false, maxBatchSize: BATCH },
    );
  }

  /**
   * @returns null = the code was never issued.
   * @throws EngineUnavailable if it is not cached and Postgres is unavailable
   */
  async find(code: Code): Promise<FoundCode | null> {
    const history = this.#history();
    const known = this.#found.get(code);
    if (known) return known;
    const found = await this.#loader.load(code);
    if (found && this.#history() === history) this.#found.set(code, found);
    return found;
  }
}
