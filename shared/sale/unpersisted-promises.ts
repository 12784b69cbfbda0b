import { setTimeout as sleep } from 'node:timers/promises';
import type { RawEntry } from '../contracts/journal.js';
import { JOURNAL_START, journalPlace } from '../redis/journal-ids.js';

type Kept = { journalId: string; generation: number; n: number; describe: () => RawEntry };

/**
 * Keeps every journal entry that script calls of this process have appended until Postgres has committed it, normally
 * for a few milliseconds. When Redis loses entries before, this is the only copy
 * (docs/decisions/0022-unpersisted-promises.md). It also keeps the facts that responses of this process acknowledged
 * again (docs/decisions/0070-replays-are-kept.md).
 */
export class UnpersistedPromises {
  /** Sorted by id. */
  #kept: Kept[] = [];
  /** Facts by their names, in the order in which they were read. */
  readonly #facts = new Map<string, Kept>();
  #committed = journalPlace(JOURNAL_START);

  constructor(
    /**
     * Maximum number of entries, and of facts. Beyond it the oldest tenth is dropped: in a long outage of Postgres,
     * Redis has them.
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

  /**
   * Adds a fact that a response acknowledges again, unless Postgres has it. It replaces an earlier one with this name,
   * so that many retries of one request do not displace other promises.
   * @param lastId last id of the journal when the fact was read
   * @param describe makes the entry from its id, which contains the name
   */
  acknowledge(name: string, lastId: string, describe: (journalId: string) => RawEntry): void {
    const [generation, n] = journalPlace(lastId);
    const journalId = `${lastId}-${name}`;
    const fact: Kept = { journalId, generation, n, describe: () => describe(journalId) };
    if (!isLater(fact, ...this.#committed)) return;
    const facts = this.#facts;
    facts.delete(name);
    facts.set(name, fact);
    if (facts.size > this.limit) {
      for (const oldest of [...facts.keys()].slice(0, Math.ceil(this.limit / 10))) facts.delete(oldest);
    }
  }

  /** Removes the entries and facts that Postgres has committed. @param upTo id of the last one */
  committed(upTo: string): void {
    const first = this.#firstAfter(upTo);
    if (first > 0) this.#kept.splice(0, first);
    this.#committed = journalPlace(upTo);
    for (const [name, fact] of this.#facts) {
      // An earlier one behind this one is removed with the next commit.
      if (isLater(fact, ...this.#committed)) break;
      this.#facts.delete(name);
    }
  }

  get size(): number {
    return this.#kept.length + this.#facts.size;
  }

  /**
   * Returns entries later than `afterId`, sorted by id, then facts, at most `limit`; only of generations older than
   * `before`.
   */
  after(afterId: string, before: number, limit: number): RawEntry[] {
    const found: RawEntry[] = [];
    for (let at = this.#firstAfter(afterId); at < this.#kept.length && found.length < limit; at += 1) {
      const { generation, describe } = this.#kept[at] as Kept;
      if (generation >= before) break;
      found.push(describe());
    }
    const place = journalPlace(afterId);
    for (const fact of this.#facts.values()) {
      if (found.length >= limit) break;
      if (fact.generation < before && isLater(fact, ...place)) found.push(fact.describe());
    }
    return found;
  }

  /** Removes entries that are stored elsewhere. */
  forget(journalIds: readonly string[]): void {
    const gone = new Set(journalIds);
    this.#kept = this.#kept.filter(({ journalId }) => !gone.has(journalId));
    for (const [name, { journalId }] of this.#facts) if (gone.has(journalId)) this.#facts.delete(name);
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

const LOOK_EVERY_MS = 20;

/**
 * Waits until no promise is left, because Postgres has them or they were saved for a recovery.
 * @returns how many are left after `limitMs`
 */
export async function untilPersisted(
  all: readonly Pick<UnpersistedPromises, 'size'>[],
  limitMs: number,
): Promise<number> {
  const left = () => all.reduce((sum, { size }) => sum + size, 0);
  const until = performance.now() + limitMs;
  while (left() > 0 && performance.now() < until) await sleep(LOOK_EVERY_MS);
  return left();
}

function isLater(kept: Kept, generation: number, n: number): boolean {
  return kept.generation === generation ? kept.n > n : kept.generation > generation;
}
