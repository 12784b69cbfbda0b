import type { JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Tracing } from '../../shared/observability/tracing.js';
import type { JournalHistories } from '../../shared/postgres/journal-histories.js';
import { constraintOf, type Database, isRefusal, type Queryable } from '../../shared/postgres/pool.js';
import { withCampaignTotals } from '../../shared/projection/campaign-totals.js';
import { EventWriter, type WrittenEvents } from '../../shared/projection/event-writer.js';
import { type JournalCursor, lockedCursor, lockWithHistory } from '../../shared/projection/journal-cursor.js';
import { projectEntries } from '../../shared/projection/projection.js';
import { isRefusedBatch, writeProjection } from '../../shared/projection/write-projection.js';
import { type Beginnings, firstBreak } from '../../shared/redis/continuity.js';
import { ownerOf } from '../../shared/redis/idempotency-record.js';
import type { Journal } from '../../shared/redis/journal.js';
import { decodeEntry } from '../../shared/redis/journal-entries.js';
import { compareJournalIds, generationOf } from '../../shared/redis/journal-ids.js';
import type { FiledRequestName, RequestNames } from '../../shared/redis/request-names.js';
import { AwaitedCampaigns } from './awaited-campaigns.js';
import { ForeignHistory, JournalGap } from './continuity.js';
import type { Judged } from './judged.js';
import type { RefusedEntries } from './refused-entries.js';
import { tracePersisted } from './trace-persisted.js';

const SMALLEST_FIRST_BATCH = 50;

export type PersistDeps = {
  database: Database;
  journal: Journal;
  cursor: JournalCursor;
  histories: Pick<JournalHistories, 'since'>;
  refused: RefusedEntries;
  requests: Pick<RequestNames, 'keep'>;
  metrics: Metrics;
  /** null = no spans are recorded */
  tracing?: Tracing | null;
  log: Log;
  limits: { batchEntries: number /** Of idempotency records. */; idempotencyTtlMs: number };
  /** Receives the events of each committed batch. */
  publish?: (written: WrittenEvents) => void;
};

/** `draining`: Redis is out of service. */
type How = { draining: boolean };

/** `judged`: of an entry that was refused alone. It is written again, and settled only if it is refused again. */
type Batch =
  | ({ kind: 'done' | 'written' } & Persisted)
  | { kind: 'refused'; entries: number; error: Error; judged: Judged | null };

/**
 * `upTo`: the last committed journal id. `entries`: number of entries that this call wrote. `isUrgent`: the next batch
 * should follow at once, because this batch was full or responses wait for commits.
 */
export type Persisted = { upTo: string; entries: number; isUrgent: boolean };

/**
 * Writes the journal to Postgres in order, each entry once. The transaction that writes a batch locks and moves the
 * cursor, so a repeated, late or concurrent call finds nothing left to do. Only the latest history in Postgres is
 * written, and only without a gap. A batch that Postgres rejects is halved until the bad entry is alone. Both engines
 * are compared then. If Postgres still rejects the entry, it is voided, and the others are saved.
 */
export class Persist {
  #firstBatch: number;
  readonly #events = new EventWriter();
  readonly #awaited = new AwaitedCampaigns();
  readonly #lock: readonly string[];

  constructor(readonly deps: PersistDeps) {
    this.#lock = lockWithHistory(deps.cursor.shard);
    this.#firstBatch = deps.limits.batchEntries;
  }

  /**
   * Returns when every entry up to and including `to` is committed.
   * @throws PostgresBehind when Postgres lacks what a refused entry needs
   * @throws JournalGap, ForeignHistory when the journal does not continue the cursor in Postgres; nothing is written or
   *   trimmed
   */
  upTo(to: string): Promise<Persisted> {
    return this.#upTo(to, { draining: false });
  }

  /**
   * Does the same while Redis is out of service. Only the worker that recovers Redis calls it, after it has verified
   * the journal.
   */
  async drain(to: string): Promise<void> {
    await this.#upTo(to, { draining: true });
  }

  async #upTo(to: string, how: How): Promise<Persisted> {
    const { limits, log } = this.deps;
    let size = this.#firstBatch;
    let entries = 0;
    let judged: Judged | null = null;
    for (;;) {
      const batch: Batch = await this.#writeNext(to, size, how, judged).catch((error: unknown) => {
        // The batch may have been too large for a slow Postgres, so the next run begins with a smaller one.
        this.#firstBatch = Math.max(SMALLEST_FIRST_BATCH, Math.floor(this.#firstBatch / 2));
        throw error;
      });
      if (batch.kind !== 'refused') entries += batch.entries;
      if (batch.kind === 'done') return { ...batch, entries };
      judged = batch.kind === 'refused' ? batch.judged : null;
      if (batch.kind === 'refused') {
        size = Math.max(1, Math.floor(batch.entries / 2));
        if (!judged) log.warn({ err: batch.error, entries: batch.entries }, 'Postgres rejected a batch; halving it');
      } else {
        size = Math.min(limits.batchEntries, size * 2);
        this.#firstBatch = size;
      }
    }
  }

  async #writeNext(to: string, size: number, how: How, judged: Judged | null): Promise<Batch> {
    const { database, metrics, tracing } = this.deps;
    const startMs = tracing ? performance.now() : 0;
    const end = metrics.persistSeconds.startTimer();
    let read: RawEntry[] = [];
    let entries: JournalEntry[] = [];
    let upTo: string;
    let written: WrittenEvents | null = null;
    try {
      upTo = await database.transaction(async (client, results) => {
        const locked = lockedCursor(results);
        read = await this.#readNext(locked, to, size, how);
        const last = read.at(-1);
        if (!last) return locked.cursor;
        entries = read.map(decodeEntry);
        this.#events.startGeneration(locked.generation);
        await this.deps.cursor.lockWrites(client);
        written = await this.#write(client, entries, last.journalId);
        return last.journalId;
      }, this.#lock);
    } catch (error) {
      if (isUnknownCampaign(error)) {
        // The cached id of a campaign is wrong. The next attempt reads it again; nothing is voided.
        this.#events.forget();
        throw error;
      }
      if (!isRefusedBatch(error)) throw error;
      const [alone] = read;
      if (!alone) throw error;
      if (read.length > 1) return { kind: 'refused', entries: read.length, error, judged: null };
      if (!judged?.covers(alone, error)) {
        const compared = await this.deps.refused.compare(alone, error, how.draining);
        return { kind: 'refused', entries: 1, error, judged: compared };
      }
      await this.#settle(judged, error);
      written = null;
      upTo = alone.journalId;
    }
    if (read.length === 0) {
      await this.#committed(upTo);
      return { kind: 'done', upTo, entries: 0, isUrgent: false };
    }
    end();
    metrics.persistedEntries.inc(read.length);
    if (tracing) tracePersisted(tracing, entries, { startMs, upTo, shard: this.deps.cursor.shard });
    if (written) this.deps.publish?.(written);
    await Promise.all([this.#committed(upTo), this.#keepNames(entries)]);
    const isUrgent = this.#awaited.areIn(read) || read.length >= size;
    const kind = compareJournalIds(upTo, to) >= 0 ? 'done' : 'written';
    return { kind, upTo, entries: read.length, isUrgent };
  }

  async #write(client: Queryable, entries: readonly JournalEntry[], upTo: string): Promise<WrittenEvents | null> {
    const reservations = await this.#events.reservationsIn(client, entries);
    if (reservations)
      return this.#events.writeReservations(client, reservations, { upTo, shard: this.deps.cursor.shard });
    const stated = await withCampaignTotals(client, entries);
    const rowsAreNew = await writeProjection(client, projectEntries(stated));
    const written = await this.#events.write(client, stated, rowsAreNew);
    await this.deps.cursor.move(client, upTo);
    return written;
  }

  /** The entries after the cursor; empty when nothing is left to do. @throws JournalGap, ForeignHistory */
  async #readNext(
    { cursor, generation }: { cursor: string; generation: number | null },
    to: string,
    size: number,
    { draining }: How,
  ): Promise<RawEntry[]> {
    const { journal } = this.deps;
    if (compareJournalIds(cursor, to) >= 0) return [];
    const { entries, epoch } = await journal.readWithEpoch(cursor, size);
    const read = draining ? entries.filter(({ journalId }) => compareJournalIds(journalId, to) <= 0) : entries;
    if (!draining && epoch?.generation !== generation) throw new ForeignHistory(epoch?.generation ?? null, generation);
    const ids = read.map(({ journalId }) => journalId);
    const found = ids.length === 0 ? null : firstBreak(cursor, ids, await this.#beginnings(cursor, ids));
    if (ids.length === 0 || found !== null) throw new JournalGap(cursor, found);
    return read;
  }

  /** Queries Postgres only when a batch spans histories, which is rare. */
  async #beginnings(cursor: string, ids: readonly string[]): Promise<Beginnings> {
    const known = generationOf(cursor);
    if (ids.every((id) => generationOf(id) === known)) return new Map();
    return new Map((await this.deps.histories.since(known)).map(({ generation, afterId }) => [generation, afterId]));
  }

  /** Settles the one entry that Postgres rejects. Its promise is voided in Redis first, which can be repeated. */
  async #settle(judged: Judged, error: Error): Promise<void> {
    const { database, cursor, refused } = this.deps;
    const { journalId } = judged.raw;
    await database.transaction(async (client: Queryable) => {
      if (compareJournalIds(await cursor.lock(client), journalId) >= 0) return;
      await refused.settle(client, judged, error);
      await cursor.move(client, journalId);
    });
  }

  /** Keeps the names of idempotency records. Without them a repair of Postgres writes rows without their keys. */
  async #keepNames(entries: readonly JournalEntry[]): Promise<void> {
    const { requests, limits, log } = this.deps;
    const names: FiledRequestName[] = [];
    for (const entry of entries) {
      if (!('key' in entry) || entry.key === '') continue;
      const user = 'user' in entry ? entry.user : ownerOf(entry.answer);
      if (user !== null) names.push({ no: entry.no, user, key: entry.key, atMs: entry.atMs });
    }
    // Redis may be full, and only what is trimmed here makes room.
    await requests.keep(names, limits.idempotencyTtlMs).catch((error: unknown) => {
      log.warn({ err: error, names: names.length }, 'names of idempotency records were not kept');
    });
  }

  /** Announces the committed entries and removes them from the journal. Both may be repeated, and both may be late. */
  async #committed(upTo: string): Promise<void> {
    const { journal } = this.deps;
    await Promise.all([journal.announcePersisted(upTo), journal.trim(upTo)]);
  }
}

/** Whether a row names a campaign that Postgres does not have. */
function isUnknownCampaign(error: unknown): boolean {
  return isRefusal(error) && constraintOf(error) === 'redemptions_campaign_id_fkey';
}
