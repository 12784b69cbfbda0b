import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { onShardMessage, subscribeInShard } from './channels.js';
import { compareJournalIds, generationOf, JOURNAL_START } from './journal-ids.js';
import { keys } from './keys.js';

const SUBSCRIBE_AGAIN_MS = 250;

type Waiter = { journalId: string; resolve: (committed: boolean) => void; timer: NodeJS.Timeout };

/**
 * Tracks how far the journal is committed to Postgres, from the announcements of the worker, and lets responses wait
 * for it: many responses for one transaction (group commit). The next announcement makes up for a lost one.
 */
export class CommitWatermark {
  #committed = JOURNAL_START;
  readonly #waiters = new Set<Waiter>();
  readonly #listeners = new Set<(upTo: string) => void>();

  constructor(
    readonly subscriber: Redis,
    /** Maximum number of waiting responses. Further ones fail at once, and their clients retry. */
    readonly maxWaiting: number,
  ) {}

  /** Returns when the subscription is active. It is tried again, because a slot may be on another node by now. */
  async start(): Promise<void> {
    onShardMessage(this.subscriber, (channel, message) => {
      if (channel === keys.persisted) this.#advance(message);
    });
    while (this.subscriber.status !== 'end') {
      try {
        return await subscribeInShard(this.subscriber, keys.persisted);
      } catch {
        // The connection reports the reason, and moves to the right server.
        await sleep(SUBSCRIBE_AGAIN_MS, undefined, { ref: false });
      }
    }
  }

  /** Journal id up to which this process knows that the journal is committed. */
  get upTo(): string {
    return this.#committed;
  }

  /** Records a cursor that was read from Postgres, like an announcement. */
  heard(upTo: string): void {
    this.#advance(upTo);
  }

  /** Calls back at every commit. */
  onCommit(listener: (upTo: string) => void): void {
    this.#listeners.add(listener);
  }

  /** Resolves to whether the entry is committed within `waitMs`. After false, it may still be committed later. */
  committed(journalId: string, waitMs: number): Promise<boolean> {
    if (isContained(journalId, this.#committed)) return Promise.resolve(true);
    // An entry of an older history than the last commit may be missing in the newer history.
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

  /** Fails the waits for entries of older histories, because a newer history has begun that may lack them. */
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

/** Whether a commit up to `upTo` proves that an entry is committed, which requires that both are of one history. */
function isContained(journalId: string, upTo: string): boolean {
  return generationOf(journalId) === generationOf(upTo) && compareJournalIds(journalId, upTo) <= 0;
}
