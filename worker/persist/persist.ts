import type { JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import { ContractError } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { foldBatch } from '../../shared/postgres/batch-fold.js';
import { eventsOf } from '../../shared/postgres/events-of-entries.js';
import { UnknownCampaigns, UnknownReservations, writeBatch } from '../../shared/postgres/journal-batch.js';
import type { JournalCursor } from '../../shared/postgres/journal-cursor.js';
import { insertEvents } from '../../shared/postgres/outbox.js';
import { type Database, isRefusal } from '../../shared/postgres/pool.js';
import { compareJournalIds, decodeEntry, type Journal } from '../../shared/redis/journal.js';
import type { RefusedEntries } from './refused-entries.js';

const SMALLEST_FIRST_BATCH = 50;

export type PersistLimits = { batchEntries: number };

/**
 * Writes the journal to Postgres, in its order, each entry once: the cursor moves in the transaction that writes, and is
 * locked by it, so a job that runs twice, late, or beside another finds nothing left to do. A batch that Postgres refuses
 * is halved until the bad entry is alone; that one is voided and the rest is saved.
 */
export class Persist {
  #firstBatch: number;

  constructor(
    readonly database: Database,
    readonly journal: Journal,
    readonly cursor: JournalCursor,
    readonly refused: RefusedEntries,
    readonly metrics: Metrics,
    readonly log: Log,
    readonly limits: PersistLimits,
  ) {
    this.#firstBatch = limits.batchEntries;
  }

  /** Returns when everything up to and with `to` is committed. */
  async upTo(to: string): Promise<void> {
    let size = this.#firstBatch;
    for (;;) {
      const batch = await this.#writeNext(to, size).catch((error: unknown) => {
        // Too slow for so much, perhaps; the next run begins with less.
        this.#firstBatch = Math.max(SMALLEST_FIRST_BATCH, Math.floor(this.#firstBatch / 2));
        throw error;
      });
      if (batch.kind === 'done') return;
      if (batch.kind === 'refused') {
        size = Math.max(1, Math.floor(batch.entries / 2));
        this.log.warn({ err: batch.error, entries: batch.entries }, 'Postgres refused a batch; halving it');
      } else {
        size = Math.min(this.limits.batchEntries, size * 2);
        this.#firstBatch = size;
      }
    }
  }

  async #writeNext(
    to: string,
    size: number,
  ): Promise<{ kind: 'done' } | { kind: 'written' } | { kind: 'refused'; entries: number; error: Error }> {
    const end = this.metrics.persistSeconds.startTimer();
    let read: RawEntry[] = [];
    let upTo: string;
    try {
      upTo = await this.database.transaction(async (client) => {
        const cursor = await this.cursor.lock(client);
        if (compareJournalIds(cursor, to) >= 0) return cursor;
        read = await this.journal.read(cursor, size);
        const last = read.at(-1);
        // Nothing there although the job says so: the journal was trimmed or lost, which is not this job's to mend.
        if (!last) return cursor;
        const entries = read.map(decodeEntry);
        await writeBatch(client, foldBatch(entries));
        await insertEvents(client, eventsOf(entries));
        await this.cursor.move(client, last.journalId);
        return last.journalId;
      });
    } catch (error) {
      if (!isRefusedBatch(error)) throw error;
      if (read.length > 1) return { kind: 'refused', entries: read.length, error };
      const [alone] = read;
      if (!alone) throw error;
      await this.#writeAlone(alone, error);
      upTo = alone.journalId;
    }
    if (read.length === 0) {
      await this.#committed(upTo);
      return { kind: 'done' };
    }
    end();
    this.metrics.persistedEntries.inc(read.length);
    await this.#committed(upTo);
    return compareJournalIds(upTo, to) >= 0 ? { kind: 'done' } : { kind: 'written' };
  }

  /** The one entry that Postgres does not take: its promise is voided, in Redis first, since that can be repeated. */
  async #writeAlone(raw: RawEntry, error: Error): Promise<void> {
    let entry: JournalEntry | null = null;
    try {
      entry = decodeEntry(raw);
    } catch {
      // Kept as it is in journal_rejects.
    }
    await this.database.transaction(async (client) => {
      const cursor = await this.cursor.lock(client);
      if (compareJournalIds(cursor, raw.journalId) >= 0) return;
      await this.refused.settle(client, raw, entry, error);
      await this.cursor.move(client, raw.journalId);
    });
  }

  /** Tells those who wait for it, then removes what is saved. Both may be repeated and both may be late. */
  async #committed(upTo: string): Promise<void> {
    await this.journal.announcePersisted(upTo);
    await this.journal.trim(upTo);
  }
}

function isRefusedBatch(error: unknown): error is Error {
  return (
    isRefusal(error) ||
    error instanceof UnknownReservations ||
    error instanceof UnknownCampaigns ||
    error instanceof ContractError
  );
}
