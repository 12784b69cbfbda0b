import DataLoader from 'dataloader';
import { LRUCache } from 'lru-cache';
import type { Code } from '../../shared/domain/codes.js';
import type { CodesTable, FoundCode } from '../../shared/postgres/codes.js';

/** Codes of one statement. */
const BATCH = 500;
/** Codes remembered, about 300 bytes each. */
const REMEMBERED = 50_000;

/**
 * Which campaign a code belongs to, and with which number. What was issued never changes, so it is remembered; a code that
 * was not found is not, since it may be issued any time. Questions of one moment go to Postgres as one statement.
 */
export class CodeLookup {
  readonly #found = new LRUCache<Code, FoundCode>({ max: REMEMBERED });
  readonly #loader: DataLoader<Code, FoundCode | null>;

  constructor(codes: CodesTable) {
    this.#loader = new DataLoader(
      async (asked) => {
        const found = await codes.find(asked);
        return asked.map((code) => found.get(code) ?? null);
      },
      { cache: false, maxBatchSize: BATCH },
    );
  }

  /** @returns null when the code was never issued. @throws EngineUnavailable when it is not remembered and Postgres is away */
  async find(code: Code): Promise<FoundCode | null> {
    const known = this.#found.get(code);
    if (known) return known;
    const found = await this.#loader.load(code);
    if (found) this.#found.set(code, found);
    return found;
  }
}
