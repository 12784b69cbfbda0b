import type { JournalState } from '../../shared/postgres/journal-histories.js';
import type { Epoch } from '../../shared/redis/epoch.js';
import type { JournalPosition } from '../../shared/redis/journal.js';
import { compareJournalIds, generationOf, JOURNAL_START, nextId, numberOf } from '../../shared/redis/journal-ids.js';

/** What the worker sees of a Redis server and of Postgres in one look. */
export type Look = {
  /** `master_replid` of the server. */
  server: string;
  epoch: Epoch | null;
  journal: JournalPosition;
  /** Read before the journal, which is therefore never older than its cursor, unless Redis is. */
  postgres: JournalState;
  /** The cursor read after the journal: what was persisted and trimmed in between is not missing. */
  cursorAfter: string;
  /** The last entry before the history of the journal's first entry; null when Postgres does not know that history. */
  firstBegins: string | null;
  /** Whether entries that Redis lost wait to be applied. */
  recovered: boolean;
};

/** The reason of the recovery of an installation that has no data yet. */
export const FIRST_START = 'first start';

export type Diagnosis =
  | { kind: 'in_service' }
  /** Entries between the cursor and the journal are missing in Postgres, not in Redis. */
  | { kind: 'postgres_behind' }
  /** This server was in service, and another one has been since. */
  | { kind: 'superseded' }
  /**
   * `intact`: the server contains everything that Postgres has, and its journal the rest. `behind`: Postgres was set back,
   * so nothing may be filled from there.
   */
  | { kind: 'recover'; reason: string; intact: boolean; behind: boolean };

const recover = (reason: string, intact: boolean, behind = false): Diagnosis => ({
  kind: 'recover',
  reason,
  intact,
  behind,
});

/** Judges a look. Pure, so that every case has a test. */
export function diagnose(look: Look): Diagnosis {
  const { server, epoch, journal, postgres, recovered } = look;
  const { cursor, latest, current } = postgres;
  const behind = latest !== null && isBehind(look.cursorAfter, journal, look.firstBegins);
  if (epoch === null) {
    // Redis is never filled from a Postgres that is behind it, so what it has is whole.
    if (behind) return recover('Redis was out of service while Postgres was behind', true, true);
    const nothingYet = latest === null && compareJournalIds(cursor, JOURNAL_START) === 0;
    return recover(nothingYet ? FIRST_START : 'Redis is empty or was being filled', false);
  }
  const verified = epoch.server === server;
  if (latest === null) {
    // Written by a version that did not number histories: what it says is compared by order alone.
    return recover('the first numbered history', compareJournalIds(journal.lastId, cursor) >= 0);
  }
  if (epoch.generation > latest.generation) {
    if (verified) return { kind: 'postgres_behind' };
    return recover('Redis restarted while Postgres lacks its history', true, true);
  }
  if (current && epoch.generation < current.generation) {
    return verified ? { kind: 'superseded' } : recover('Redis is of an older history', false);
  }
  // The epoch is of the history in service. A later one may have been begun, in which nothing was written.
  const afterId = (epoch.generation === latest.generation ? latest : current)?.afterId ?? JOURNAL_START;
  const older = compareJournalIds(journal.lastId, cursor) < 0 && !isFresh(journal, afterId, cursor);
  if (older) return recover(verified ? 'Redis lost its journal' : 'Redis is older than Postgres', false);
  if (!verified) return recover('Redis restarted or failed over', true, behind);
  if (epoch.generation !== latest.generation || !latest.opened)
    return recover('a recovery was not finished', true, behind);
  if (generationOf(journal.lastId) > epoch.generation) {
    return recover('an older version of the service appended to the journal', true);
  }
  if (behind) return { kind: 'postgres_behind' };
  return recovered ? recover('a process saved entries late', true) : { kind: 'in_service' };
}

/** Nothing was appended in the latest history yet, and nothing after its beginning was committed. */
function isFresh(journal: JournalPosition, afterId: string, cursor: string): boolean {
  return journal.entries === 0 && compareJournalIds(cursor, afterId) === 0;
}

/** Whether entries between the cursor and the journal are missing in Postgres, which was set back. */
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
