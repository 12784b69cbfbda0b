import { LRUCache } from 'lru-cache';
import type { Code } from '../../shared/domain/codes.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CodesTable } from '../../shared/postgres/codes.js';

/** Codes are handed out by their numbers, so those that are needed next lie together. */
const BLOCK = 1_000;
/** Blocks kept, about 60 KB each. */
const BLOCKS = 500;

/** Which text a code number stands for. It never changes, so it is read once, with its neighbours. */
export class CodeTexts {
  readonly #blocks: LRUCache<string, Map<number, Code>>;

  constructor(codes: CodesTable) {
    this.#blocks = new LRUCache<string, Map<number, Code>>({
      max: BLOCKS,
      fetchMethod: (key) => {
        const [campaignNo, block] = key.split('/').map(Number);
        return codes.numbered(Number(campaignNo), Number(block) * BLOCK, (Number(block) + 1) * BLOCK);
      },
    });
  }

  /**
   * @returns null when Postgres does not say it now; the number is promised, and a later question is answered
   */
  async textOf(campaignNo: number, codeNo: number): Promise<Code | null> {
    const key = `${campaignNo}/${Math.floor(codeNo / BLOCK)}`;
    try {
      const known = (await this.#blocks.fetch(key))?.get(codeNo);
      if (known) return known;
      // Codes were added since the block was read.
      return (await this.#blocks.fetch(key, { forceRefresh: true }))?.get(codeNo) ?? null;
    } catch (error) {
      if (error instanceof EngineUnavailable) return null;
      throw error;
    }
  }
}
