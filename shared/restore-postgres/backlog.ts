import type { JournalEntry } from '../contracts/journal.js';
import type { ProductId } from '../domain/ids.js';
import type { Journal } from '../redis/journal.js';
import { decodeEntry } from '../redis/journal-entries.js';
import { compareJournalIds } from '../redis/journal-ids.js';
import { BATCH } from './chunks.js';

/** The campaigns of this shard by their numbers, and the numbers of those that other shards have. */
export type KnownCampaigns = { here: ReadonlyMap<number, ProductId>; elsewhere: ReadonlySet<number> };

/**
 * The journal has an entry of a campaign that no shard has. The repair would pass it, and then it would be trimmed.
 */
export class EntryOfNoCampaign extends Error {
  override readonly name = 'EntryOfNoCampaign';
}

/**
 * Entries that Postgres lacks and the journal still has. They are not lost, and they have details that the records in
 * Redis lack.
 */
export class Backlog {
  /**
   * Names of what the entries write: `<reservation> <kind>`, `<number>/<line number>`, `<number> status`. Events and
   * details of these are taken from the entries.
   */
  readonly #names = new Set<string>();
  /** Campaign number → units that the entries add. */
  readonly #restocked = new Map<number, number>();
  /** Campaign number → units that the entries move into the bucket of this shard. */
  readonly #moved = new Map<number, number>();
  #size = 0;
  #gap = false;

  /**
   * @param cursor the last entry that Postgres has
   * @param lastId the last entry that the picture of Redis contains
   * @param known entries of campaigns of other shards are left out: those shards have what came of them
   */
  constructor(
    readonly journal: Journal,
    readonly cursor: string,
    readonly lastId: string,
    readonly known: KnownCampaigns,
  ) {}

  get size(): number {
    return this.#size;
  }

  /** Whether entries between the cursor and the first entry of the journal are lost. */
  get hasGap(): boolean {
    return this.#gap;
  }

  /** Reads the entries. Must be called before the other methods. */
  async read(): Promise<void> {
    for await (const entries of this.entries()) {
      const [first] = entries;
      if (this.#size === 0 && first) this.#gap = !follows(this.cursor, first.journalId);
      this.#size += entries.length;
      for (const entry of entries) {
        for (const name of namesOf(entry)) this.#names.add(name);
        if (entry.kind === 'restocked') add(this.#restocked, entry.no, entry.delta);
        if (entry.kind === 'moved_in') add(this.#moved, entry.no, entry.units);
        if (entry.kind === 'moved_out') add(this.#moved, entry.no, -entry.units);
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

  /** Units that the entries move into the bucket of a divided campaign; negative = out of it. */
  unitsMoved(no: number): number {
    return this.#moved.get(no) ?? 0;
  }

  /** Whether the entries have that a transfer left the bucket of this shard. */
  hasLeft(no: number, out: number): boolean {
    return this.#names.has(`${no} out ${out}`);
  }

  /** Whether the entries have that a transfer arrived in the bucket of this shard. */
  hasArrived(no: number, from: number, out: number): boolean {
    return this.#names.has(`${no} in ${from} ${out}`);
  }

  /** Filters entries that were made from records. @returns those that the journal no longer has */
  without(entries: readonly JournalEntry[]): JournalEntry[] {
    return entries.filter((entry) => 'reservation' in entry && !this.#names.has(`${entry.reservation} ${entry.kind}`));
  }

  /** Reads the entries in order. @throws EntryOfNoCampaign */
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
        .filter((entry) => this.#isHere(entry));
      if (read.length < BATCH || compareJournalIds(after, this.lastId) >= 0) return;
    }
  }

  #isHere({ no, journalId }: JournalEntry): boolean {
    const { here, elsewhere } = this.known;
    if (here.has(no)) return true;
    if (elsewhere.has(no)) return false;
    throw new EntryOfNoCampaign(`the journal entry ${journalId} is about campaign ${no}, which no shard of Redis has`);
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
    case 'moved_out':
      return [`${entry.no} out ${entry.out}`];
    case 'moved_in':
      return [`${entry.no} in ${entry.from} ${entry.out}`];
    default:
      return 'reservation' in entry ? [`${entry.reservation} ${entry.kind}`] : [];
  }
}

function add(sums: Map<number, number>, no: number, units: number): void {
  sums.set(no, (sums.get(no) ?? 0) + units);
}

/** Whether an entry directly follows the cursor. Entries of a history are numbered from 0 without a gap. */
function follows(cursor: string, journalId: string): boolean {
  const [committed = '', n] = cursor.split('-');
  const [generation = ''] = journalId.split('-');
  return journalId === `${committed}-${Number(n) + 1}` || (generation !== committed && journalId === `${generation}-0`);
}
