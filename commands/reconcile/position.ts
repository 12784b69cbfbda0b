import { campaignNumberOf } from '../../shared/image/journal-tail.js';
import { type Beginnings, firstBreak } from '../../shared/redis/continuity.js';
import type { Epoch } from '../../shared/redis/epoch.js';
import type { Journal } from '../../shared/redis/journal.js';
import { compareJournalIds, generationOf, numberOf } from '../../shared/redis/journal-ids.js';
import { PackedPromise } from '../../shared/redis/packed-promises.js';
import { BATCH } from './batch.js';
import { RedisBehind } from './refusals.js';

/** An entry, and how many come before it after the cursor. */
export type FoundEntry = { id: string; index: number };

/** Where the cursor is, and what the journal has after it. */
export type FoundJournal = {
  cursor: string;
  lastId: string;
  /** The last entry that the journal no longer has, or the cursor: the repair writes Redis as of this entry. */
  position: string;
  /** Whether Postgres lacks entries that the journal no longer has. */
  hasGap: boolean;
  /** When the first entry after the cursor was made. Before, everything was made that Postgres lost. null = no entry */
  firstMs: number | null;
  /** Number of entries after the position, and of those that were passed to raise it. */
  size: number;
  passed: number;
  /** Histories that Postgres may lack: generation → the last entry before it. */
  beginnings: Beginnings;
  /** Number of a campaign → its last entry. */
  campaigns: ReadonlyMap<number, FoundEntry>;
  /** `<campaign number> <number of the transfer>` → the entry by which units leave the bucket of this shard. */
  movedOut: ReadonlyMap<string, FoundEntry>;
};

/**
 * Reads the journal after the cursor. The caller holds the lock on the cursor, so nothing is trimmed meanwhile.
 * @param known the histories that Postgres has
 * @throws RedisBehind
 */
export async function findJournal(
  journal: Journal,
  cursor: string,
  { generation }: Epoch,
  known: Beginnings,
): Promise<FoundJournal> {
  const { lastId, entries } = await journal.position();
  const begun = new Map<number, string>();
  const campaigns = new Map<number, FoundEntry>();
  const movedOut = new Map<string, FoundEntry>();
  let [first, last, size]: [string | null, string, number] = [null, cursor, 0];
  let firstMs: number | null = null;
  for (let isEnd = false; !isEnd; ) {
    const read = await journal.read(last, BATCH);
    isEnd = read.length < BATCH;
    for (const entry of read) {
      const id = entry.journalId;
      if (first !== null && generationOf(id) !== generationOf(last)) begun.set(generationOf(id), last);
      first ??= id;
      firstMs ??= Number(entry.fields.at) || null;
      const no = campaignNumberOf(entry);
      campaigns.set(no, { id, index: size });
      if (!(entry instanceof PackedPromise) && entry.fields.kind === 'moved_out')
        movedOut.set(`${no} ${entry.fields.out}`, { id, index: size });
      last = id;
      size += 1;
    }
  }
  const found = { cursor, lastId, firstMs, size, passed: 0, campaigns, movedOut };
  if (first === null && compareJournalIds(lastId, cursor) < 0) {
    // A history that began after the cursor has no entry yet.
    if (entries > 0 || known.get(generation) !== cursor)
      throw new RedisBehind(`Redis has the journal up to ${lastId}, Postgres up to ${cursor}`);
    return { ...found, position: cursor, hasGap: false, beginnings: begun };
  }
  const hasGap = first === null ? lastId !== cursor : firstBreak(cursor, [first], known) !== null;
  const before = first === null ? lastId : entryBefore(first, known.get(generationOf(first)) ?? cursor);
  const position = hasGap ? before : cursor;
  if (first !== null && numberOf(first) === 0) begun.set(generationOf(first), position);
  const end = first === null ? position : last;
  if (generation > generationOf(end)) begun.set(generation, end);
  return { ...found, position, hasGap, beginnings: begun };
}

/** @param afterId the entry that the history of this one follows */
function entryBefore(id: string, afterId: string): string {
  const n = numberOf(id);
  return n > 0 ? `${generationOf(id)}-${n - 1}` : afterId;
}
