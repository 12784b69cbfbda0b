import type { JournalEntry } from '../contracts/journal.js';
import type { ProductId } from '../domain/ids.js';
import type { Journal } from '../redis/journal.js';
import { decodeEntry } from '../redis/journal-entries.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import { BATCH } from './chunks.js';

/** Entries that Postgres lacks and the journal still has: they are not lost, and have details that no record has. */
export class Backlog {
  /**
   * What the entries write: `<reservation> <kind>`, `<number>/<line number>`, `<number> status`. Its events and details are
   * those of the entries.
   */
  readonly #names = new Set<string>();
  /** Campaign number → units that the entries add. */
  readonly #restocked = new Map<number, number>();
  #size = 0;
  #gap = false;

  /**
   * @param cursor the last entry that Postgres has
   * @param lastId the last entry of the picture of Redis
   * @param directory the campaigns that Redis knows; entries of others are left out
   */
  constructor(
    readonly journal: Journal,
    readonly cursor: string,
    readonly lastId: string,
    readonly directory: ReadonlyMap<number, ProductId>,
  ) {}

  get size(): number {
    return this.#size;
  }

  /** Whether entries between the cursor and the first one of the journal are gone. */
  get hasGap(): boolean {
    return this.#gap;
  }

  /** Reads what the entries write; before anything else is asked. */
  async read(): Promise<void> {
    for await (const entries of this.entries()) {
      const [first] = entries;
      if (this.#size === 0 && first) this.#gap = !follows(this.cursor, first.journalId);
      this.#size += entries.length;
      for (const entry of entries) {
        for (const name of namesOf(entry)) this.#names.add(name);
        if (entry.kind === 'restocked') {
          this.#restocked.set(entry.no, (this.#restocked.get(entry.no) ?? 0) + entry.delta);
        }
      }
    }
    if (this.#size === 0) this.#gap = this.cursor !== this.lastId;
  }

  hasPlace(no: number, lineNo: number): boolean {
    return this.#names.has(`${no}/${lineNo}`);
  }

  hasStatus(no: number): boolean {
    return this.#names.has(`${no} status`);
  }

  /** Units that the entries add to a campaign. */
  unitsAdded(no: number): number {
    return this.#restocked.get(no) ?? 0;
  }

  /** Of entries made from records, those that the journal does not have any more. */
  without(entries: readonly JournalEntry[]): JournalEntry[] {
    return entries.filter((entry) => 'reservation' in entry && !this.#names.has(`${entry.reservation} ${entry.kind}`));
  }

  /** The entries, in their order. */
  async *entries(): AsyncGenerator<JournalEntry[]> {
    let after = this.cursor;
    for (;;) {
      const read = await this.journal.read(after, BATCH);
      const last = read.at(-1);
      if (!last) return;
      after = last.journalId;
      yield read
        .filter(({ journalId }) => compareJournalIds(journalId, this.lastId) <= 0)
        .map(decodeEntry)
        .filter(({ no }) => this.directory.has(no));
      if (read.length < BATCH || compareJournalIds(after, this.lastId) >= 0) return;
    }
  }
}

function namesOf(entry: JournalEntry): string[] {
  switch (entry.kind) {
    case 'reserved':
      return [`${entry.reservation} ${entry.kind}`, `${entry.no}/${entry.lineNo}`];
    case 'queued':
    case 'left':
      return [`${entry.no}/${entry.lineNo}`];
    case 'status':
      return [`${entry.no} status`];
    default:
      return 'reservation' in entry ? [`${entry.reservation} ${entry.kind}`] : [];
  }
}

/** Whether an entry is the very next one: entries of a history are counted from 0 without a gap. */
function follows(cursor: string, journalId: string): boolean {
  const [committed = '', n] = cursor.split('-');
  const [generation = ''] = journalId.split('-');
  return journalId === `${committed}-${Number(n) + 1}` || (generation !== committed && journalId === `${generation}-0`);
}
