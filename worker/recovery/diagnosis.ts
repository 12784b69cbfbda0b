import type { JournalState } from '../../shared/postgres/journal-histories.js';
import { isBehind } from '../../shared/redis/continuity.js';
import type { Epoch } from '../../shared/redis/epoch.js';
import type { JournalPosition } from '../../shared/redis/journal.js';
import { compareJournalIds, JOURNAL_START } from '../../shared/redis/journal-ids.js';

/** The state of a Redis server and of Postgres, read together. */
export type Look = {
  /** `master_replid` of the server. */
  server: string;
  epoch: Epoch | null;
  journal: JournalPosition;
  /** Read before the journal. So the journal ends before this cursor only if Redis is older than Postgres. */
  postgres: JournalState;
  /**
   * The cursor, read after the journal. Entries that were persisted and trimmed between the two reads are not missing.
   */
  cursorAfter: string;
  /** The last entry before the history of the journal's first entry; null when Postgres does not know that history. */
  firstBegins: string | null;
};

/** The reason for the recovery of an installation without data. */
export const FIRST_START = 'first start';

export type Diagnosis =
  | { kind: 'in_service' }
  /** Entries between the cursor and the journal are missing in Postgres, not in Redis. */
  | { kind: 'postgres_behind' }
  /** This server was in service, and another server has been in service since. */
  | { kind: 'superseded' }
  /**
   * `intact`: the server has everything that Postgres has, and its journal has the rest. `behind`: Postgres was set
   * back, so only what Redis lacks may be filled from it.
   */
  | { kind: 'recover'; reason: string; intact: boolean; behind: boolean };

const recover = (reason: string, intact: boolean, behind = false): Diagnosis => ({
  kind: 'recover',
  reason,
  intact,
  behind,
});

/** Decides what to do about the state in `look`. It is a pure function, so every case has a test. */
export function diagnose(look: Look): Diagnosis {
  const { server, epoch, journal, postgres } = look;
  const { cursor, latest, current, recovered } = postgres;
  const behind = latest !== null && isBehind(look.cursorAfter, journal, look.firstBegins);
  if (epoch === null) {
    // It lacks at most campaigns whose refill was interrupted (recovery.ts).
    if (behind) return recover('Redis was out of service while Postgres was behind', true, true);
    const nothingYet = latest === null && compareJournalIds(cursor, JOURNAL_START) === 0;
    return recover(nothingYet ? FIRST_START : 'Redis is empty or was being filled', false);
  }
  const verified = epoch.server === server;
  if (latest === null || epoch.generation > latest.generation) {
    if (verified) return { kind: 'postgres_behind' };
    return recover('Redis restarted while Postgres lacks its history', true, true);
  }
  if (current && epoch.generation < current.generation) {
    return verified ? { kind: 'superseded' } : recover('Redis is of an older history', false);
  }
  // The epoch belongs to the history in service. A later history may have been registered, but nothing was written in
  // it.
  const afterId = (epoch.generation === latest.generation ? latest : current)?.afterId ?? JOURNAL_START;
  const older = compareJournalIds(journal.lastId, cursor) < 0 && !isFresh(journal, afterId, cursor);
  if (older) return recover(verified ? 'Redis lost its journal' : 'Redis is older than Postgres', false);
  if (!verified) return recover('Redis restarted or failed over', true, behind);
  if (epoch.generation !== latest.generation || !latest.opened)
    return recover('a recovery was not finished', true, behind);
  if (behind) return { kind: 'postgres_behind' };
  return recovered ? recover('a process saved entries late', true) : { kind: 'in_service' };
}

/** Whether the latest history has no entry yet, and nothing after its beginning was committed. */
function isFresh(journal: JournalPosition, afterId: string, cursor: string): boolean {
  return journal.entries === 0 && compareJournalIds(cursor, afterId) === 0;
}
