import { LRUCache } from 'lru-cache';
import type { Code } from '../../shared/domain/codes.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Reads } from '../../shared/postgres/circuit-breaker.js';
import type { CodesTable } from '../../shared/postgres/codes.js';

/** Codes per block. Codes are assigned in the order of their numbers, so the next ones are in the same block. */
const BLOCK = 1_000;
/** Maximum number of cached blocks, about 60 KB each. */
const BLOCKS = 500;

/**
 * Resolves code numbers to codes. A number never changes its code within the histories of Redis, so codes are cached in
 * blocks.
 */
export class CodeTexts {
  readonly #blocks: LRUCache<string, Map<number, Code>>;

  /** @param generation names the current histories of all shards */
  constructor(
    codes: CodesTable,
    reads: Reads,
    readonly generation: () => string,
  ) {
    this.#blocks = new LRUCache<string, Map<number, Code>>({
      max: BLOCKS,
      fetchMethod: (key, known) => {
        const [campaignNo, block] = key.split('/').map(Number);
        // Read again, because a code was missing: a replica may lack it still.
        const from = known && reads.latest ? reads.latest : reads;
        return codes.numbered(Number(campaignNo), Number(block) * BLOCK, (Number(block) + 1) * BLOCK, from);
      },
    });
  }

  /**
   * Returns the code with a number; null = Postgres is unavailable. The code stays promised and can be read later.
   */
  async textOf(campaignNo: number, codeNo: number): Promise<Code | null> {
    const key = `${campaignNo}/${Math.floor(codeNo / BLOCK)}/${this.generation()}`;
    try {
      const known = (await this.#blocks.fetch(key))?.get(codeNo);
      if (known) return known;
      // The code was added after the block was read.
      return (await this.#blocks.fetch(key, { forceRefresh: true }))?.get(codeNo) ?? null;
    } catch (error) {
      if (error instanceof EngineUnavailable) return null;
      throw error;
    }
  }
}
