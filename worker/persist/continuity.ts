import { compareJournalIds, generationOf, nextId, numberOf } from '../../shared/redis/journal-ids.js';

/** Entries between the cursor in Postgres and the journal are missing: Postgres was set back, or the journal was cut. */
export class JournalGap extends Error {
  override readonly name = 'JournalGap';
  constructor(
    /** The last entry that Postgres has. */
    readonly cursor: string,
    /** The first entry that the journal has after it; null = none, although later ones were given. */
    readonly found: string | null,
  ) {
    super(`Postgres has the journal up to ${cursor}, and Redis continues with ${found ?? 'nothing'}`);
  }
}

/** The journal belongs to another history than the one that Postgres knows as the latest. */
export class ForeignHistory extends Error {
  override readonly name = 'ForeignHistory';
  constructor(
    readonly generation: number | null,
    readonly latest: number | null,
  ) {
    super(`this Redis is of generation ${generation ?? 'none'}, Postgres is at generation ${latest ?? 'none'}`);
  }
}

/** Where a history began: generation → the last entry of earlier histories that it contains. */
export type Beginnings = ReadonlyMap<number, string>;

/**
 * Whether `ids` follow the cursor without a gap: each is the next one of its history, or the first one of a history that
 * begins where the one before it ended.
 * @returns the first id that does not follow; null when all do
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

/** Histories in which nothing was appended may lie in between: each of them began at the same entry. */
function beginsAfter(beginnings: Beginnings, id: string, before: string): boolean {
  const afterId = beginnings.get(generationOf(id));
  return afterId !== undefined && compareJournalIds(afterId, before) === 0;
}
