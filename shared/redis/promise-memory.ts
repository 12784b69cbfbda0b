import type { Acknowledged } from '../contracts/acknowledged.js';
import { compareJournalIds } from './journal.js';

type WithoutId<Promise_> = Promise_ extends Acknowledged ? Omit<Promise_, 'journalId'> : never;

/** `described`: once it has been asked for. */
type Kept = { journalId: string; describe: () => WithoutId<Acknowledged>; described: Acknowledged | null };

/**
 * Keeps what this process has told, until Postgres has it: normally a few milliseconds' worth. When Redis loses its data in
 * between, this is the only place where those promises still are (docs/decisions/0009-promise-memory.md). Bounded: with
 * Postgres away for long the oldest are let go, since Redis has them.
 */
export class PromiseMemory {
  #kept: Kept[] = [];

  constructor(
    readonly limit: number,
    readonly nowMs: () => number,
  ) {}

  /**
   * @param journalId "" when the script did not say it: its entry is not later than now
   * @param describe is called when the promise has to be saved, which is next to never
   */
  remember(journalId: string, describe: () => WithoutId<Acknowledged>): void {
    this.#kept.push({ journalId: journalId || `${Math.ceil(this.nowMs())}-0`, describe, described: null });
    if (this.#kept.length > this.limit) this.#kept.splice(0, Math.ceil(this.limit / 10));
  }

  /** Postgres has everything up to here. */
  committed(upTo: string): void {
    const first = this.#kept.findIndex(({ journalId }) => compareJournalIds(journalId, upTo) > 0);
    this.#kept = first === -1 ? [] : this.#kept.slice(first);
  }

  get size(): number {
    return this.#kept.length;
  }

  /** All that is kept; it stays until `committed` or `forget`. */
  all(): Acknowledged[] {
    return this.#kept.map((kept) => {
      kept.described ??= { ...kept.describe(), journalId: kept.journalId } as Acknowledged;
      return kept.described;
    });
  }

  /** @param saved what `all` has returned and is safe elsewhere */
  forget(saved: readonly Acknowledged[]): void {
    const gone = new Set<Acknowledged | null>(saved);
    this.#kept = this.#kept.filter(({ described }) => described === null || !gone.has(described));
  }
}
