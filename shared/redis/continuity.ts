import type { JournalPosition } from './journal.js';
import { compareJournalIds, generationOf, nextId, numberOf } from './journal-ids.js';

/** Where a history began: generation → the last entry of earlier histories that it contains. */
export type Beginnings = ReadonlyMap<number, string>;

/**
 * Checks that `ids` follow the cursor without a gap. Each id must be the next one of its history, or the first one of a
 * history that begins after the entry before it.
 * @returns the first id that does not follow the entry before it; null = all ids follow
 */
export function firstBreak(cursor: string, ids: readonly string[], beginnings: Beginnings): string | null {
  let before = cursor;
  for (const id of ids) {
    const begins = numberOf(id) === 0 && generationOf(id) > generationOf(before) && beginsAfter(beginnings, id, before);
    if (id !== nextId(before) && !begins) return id;
    before = id;
  }
  return null;
}

/**
 * Whether the history of `id` begins after the entry `before`. Empty histories may lie in between, because each of them
 * began after the same entry.
 */
function beginsAfter(beginnings: Beginnings, id: string, before: string): boolean {
  const afterId = beginnings.get(generationOf(id));
  return afterId !== undefined && compareJournalIds(afterId, before) === 0;
}

/**
 * Whether entries between the cursor and the journal are missing in Postgres, because it was set back.
 * @param cursor read after the journal: entries that were persisted in between are not missing
 * @param firstBegins the last entry before the history of the first one; null = Postgres does not know that history
 */
export function isBehind(
  cursor: string,
  { firstId, lastId, entries }: JournalPosition,
  firstBegins: string | null,
): boolean {
  if (compareJournalIds(lastId, cursor) <= 0) return false;
  if (entries === 0 || firstId === null) return true;
  // Committed entries that are not trimmed yet may come first.
  if (compareJournalIds(firstId, cursor) <= 0 || firstId === nextId(cursor)) return false;
  if (generationOf(firstId) === generationOf(cursor)) return true;
  return firstBegins === null || numberOf(firstId) > 0 || compareJournalIds(firstBegins, cursor) !== 0;
}
