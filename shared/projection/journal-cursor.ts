import type { QueryResult } from 'pg';
import type { RawEntry } from '../contracts/journal.js';
import type { Database, Queryable } from '../postgres/pool.js';

/**
 * Locks the cursor, and reads it with the generation of the latest history. These are two statements, because a
 * statement that waited for a lock would see the histories of the moment at which it began.
 */
export const LOCK_WITH_HISTORY = [
  'select 1 from journal_cursor for update',
  `select last_id, (select max(generation) from journal_histories) as generation,
     set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true) from journal_cursor for update`,
] as const;

/** The cursor and the generation of the latest history (null before the first one). */
export type LockedCursor = { cursor: string; generation: number | null };

/**
 * Tables `journal_cursor` and `journal_rejects`: how far the journal has been persisted, and the entries that were
 * rejected.
 */
export class JournalCursor {
  constructor(readonly database: Database) {}

  /** Id of the last entry that is committed to Postgres. */
  async read(): Promise<string> {
    return lastId(await this.database.query<{ last_id: string }>('select last_id from journal_cursor'));
  }

  /**
   * Locks the cursor for this transaction; a second writer waits here. Returns the cursor. Disables sequential scans
   * for the transaction: batches find rows by their keys, but the planner would read small tables completely. Disabled
   * plans count as expensive, which would start JIT compilation, so JIT is disabled too.
   */
  async lock(client: Queryable): Promise<string> {
    return (await this.lockWithHistory(client)).cursor;
  }

  /**
   * Does the same, and also returns the generation of the latest history (null before the first one). A history begins
   * while this lock is held, so the history stays the latest until the transaction ends.
   */
  async lockWithHistory(client: Queryable): Promise<LockedCursor> {
    const results: QueryResult[] = [];
    for (const statement of LOCK_WITH_HISTORY) results.push(await client.query(statement));
    return lockedCursor(results);
  }

  async move(client: Queryable, to: string): Promise<void> {
    await client.query('update journal_cursor set last_id = $1, updated_at = now()', [to]);
  }

  /** Stores an entry that Postgres rejected, with the reason, for an operator. */
  async reject(client: Queryable, entry: RawEntry, reason: string): Promise<void> {
    await client.query(
      'insert into journal_rejects (journal_id, fields, reason) values ($1, $2, $3) on conflict do nothing',
      [entry.journalId, JSON.stringify(entry.fields), reason],
    );
  }
}

/** Reads the cursor from the results of `LOCK_WITH_HISTORY`. */
export function lockedCursor(results: readonly QueryResult[]): LockedCursor {
  const rows = results.at(-1)?.rows as { last_id: string; generation: string | null }[];
  const generation = rows[0]?.generation ?? null;
  return { cursor: lastId({ rows }), generation: generation === null ? null : Number(generation) };
}

function lastId({ rows }: { rows: { last_id: string }[] }): string {
  const [row] = rows;
  if (!row) throw new Error('journal_cursor has lost its row');
  return row.last_id;
}
