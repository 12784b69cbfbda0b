import type { Redis } from 'ioredis';
import { compareJournalIds, generationOf, JOURNAL_START } from './journal.js';
import { keys } from './keys.js';

type Waiter = { journalId: string; resolve: (committed: boolean) => void; timer: NodeJS.Timeout };

/**
 * Knows how far the journal has been committed to Postgres, by the worker's announcements, and lets answers wait for it:
 * many of them for one transaction (group commit). A lost announcement is made good by the next one.
 */
export class CommitWatermark {
  #committed = JOURNAL_START;
  readonly #waiters = new Set<Waiter>();
  readonly #listeners = new Set<(upTo: string) => void>();

  constructor(
    readonly subscriber: Redis,
    /** More answers than this do not wait; they are told to come back. */
    readonly maxWaiting: number,
  ) {}

  async start(): Promise<void> {
    this.subscriber.on('message', (channel: string, message: string) => {
      if (channel === keys.persisted) this.#advance(message);
    });
    await this.subscriber.subscribe(keys.persisted);
  }

  /** How far the journal is committed, as far as this process has heard. */
  get upTo(): string {
    return this.#committed;
  }

  /** What was read from Postgres counts like an announcement. */
  heard(upTo: string): void {
    this.#advance(upTo);
  }

  /** Calls back at every commit. */
  onCommit(listener: (upTo: string) => void): void {
    this.#listeners.add(listener);
  }

  /** True when the entry is committed within `waitMs`; false otherwise, and then it still may be later. */
  committed(journalId: string, waitMs: number): Promise<boolean> {
    if (isContained(journalId, this.#committed)) return Promise.resolve(true);
    // Of an older history than the last commit: it may be missing in the newer one.
    if (generationOf(this.#committed) > generationOf(journalId)) return Promise.resolve(false);
    if (this.#waiters.size >= this.maxWaiting) return Promise.resolve(false);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#waiters.delete(waiter);
        resolve(false);
      }, waitMs);
      const waiter: Waiter = { journalId, resolve, timer };
      this.#waiters.add(waiter);
    });
  }

  /** A newer history has begun: whether older entries are in it is not known, so waiting for them fails. */
  abandonBefore(generation: number): void {
    for (const waiter of this.#waiters) {
      if (generationOf(waiter.journalId) >= generation) continue;
      this.#waiters.delete(waiter);
      clearTimeout(waiter.timer);
      waiter.resolve(false);
    }
  }

  #advance(upTo: string): void {
    if (compareJournalIds(upTo, this.#committed) <= 0) return;
    this.#committed = upTo;
    for (const waiter of this.#waiters) {
      if (!isContained(waiter.journalId, upTo)) continue;
      this.#waiters.delete(waiter);
      clearTimeout(waiter.timer);
      waiter.resolve(true);
    }
    for (const listener of this.#listeners) listener(upTo);
  }
}

/** Whether a commit up to `upTo` says for certain that an entry is committed: both are of one history. */
function isContained(journalId: string, upTo: string): boolean {
  return generationOf(journalId) === generationOf(upTo) && compareJournalIds(journalId, upTo) <= 0;
}
