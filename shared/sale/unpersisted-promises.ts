import type { RawEntry } from '../contracts/journal.js';
import { journalPlace } from '../redis/journal-ids.js';

type Kept = { journalId: string; generation: number; n: number; describe: () => RawEntry };

/**
 * Keeps every journal entry that script calls of this process have appended until Postgres has committed it, normally
 * for a few milliseconds. When Redis loses entries before, this is the only copy
 * (docs/decisions/0022-unpersisted-promises.md).
 */
export class UnpersistedPromises {
  /** Sorted by id. */
  #kept: Kept[] = [];

  constructor(
    /**
     * Maximum number of entries. Beyond it the oldest tenth is dropped: in a long outage of Postgres, Redis has them.
     */
    readonly limit: number,
  ) {}

  /** Adds an entry. @param describe makes the entry; called only in a recovery */
  remember(journalId: string, describe: () => RawEntry): void {
    const [generation, n] = journalPlace(journalId);
    const kept = this.#kept;
    const entry: Kept = { journalId, generation, n, describe };
    // Replies arrive in the order of the calls, so nearly every entry is the latest.
    let at = kept.length;
    while (at > 0 && isLater(kept[at - 1] as Kept, generation, n)) at -= 1;
    if (at === kept.length) kept.push(entry);
    else kept.splice(at, 0, entry);
    if (kept.length > this.limit) kept.splice(0, Math.ceil(this.limit / 10));
  }

  /** Removes the entries that Postgres has committed. @param upTo id of the last one */
  committed(upTo: string): void {
    const first = this.#firstAfter(upTo);
    if (first > 0) this.#kept.splice(0, first);
  }

  get size(): number {
    return this.#kept.length;
  }

  /** Returns entries later than `afterId`, sorted by id, at most `limit`; only of generations older than `before`. */
  after(afterId: string, before: number, limit: number): RawEntry[] {
    const found: RawEntry[] = [];
    for (let at = this.#firstAfter(afterId); at < this.#kept.length && found.length < limit; at += 1) {
      const { generation, describe } = this.#kept[at] as Kept;
      if (generation >= before) break;
      found.push(describe());
    }
    return found;
  }

  /** Removes entries that are stored elsewhere. */
  forget(journalIds: readonly string[]): void {
    const gone = new Set(journalIds);
    this.#kept = this.#kept.filter(({ journalId }) => !gone.has(journalId));
  }

  #firstAfter(journalId: string): number {
    const [generation, n] = journalPlace(journalId);
    let [low, high] = [0, this.#kept.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isLater(this.#kept[middle] as Kept, generation, n)) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

function isLater(kept: Kept, generation: number, n: number): boolean {
  return kept.generation === generation ? kept.n > n : kept.generation > generation;
}
