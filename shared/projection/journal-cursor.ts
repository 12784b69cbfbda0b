import type { QueryResult } from 'pg';
import type { RawEntry } from '../contracts/journal.js';
import { ADVISORY_LOCKS } from '../postgres/advisory-locks.js';
import type { Database, Queryable } from '../postgres/pool.js';

/**
 * Locks the cursor of a shard, and reads it with the generation of the latest history. These are two statements,
 * because a statement that waited for a lock would see the histories of the moment at which it began.
 */
export const lockWithHistory = (shard: number): readonly string[] => [
  `select 1 from journal_cursor where shard = ${shard} for update`,
  `select last_id, (select max(generation) from journal_histories where shard = ${shard}) as generation,
     set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)
   from journal_cursor where shard = ${shard} for update`,
];

/** The cursor and the generation of the latest history (null before the first one). */
export type LockedCursor = { cursor: string; generation: number | null };

/**
 * Tables `journal_cursor` and `journal_rejects`: how far the journal of a shard has been persisted, and the entries
 * that were rejected.
 */
export class JournalCursor {
  constructor(
    readonly database: Database,
    readonly shard = 0,
    /** Whether the journals of several shards are written to this Postgres. */
    readonly hasOthers = false,
  ) {}

  /** Id of the last entry that is committed to Postgres. */
  async read(): Promise<string> {
    const sql = 'select last_id from journal_cursor where shard = $1';
    return lastId(await this.database.query<{ last_id: string }>(sql, [this.shard]));
  }

  /**
   * Waits until no other shard writes rows and events, and keeps the others from it until the transaction ends. Events
   * are numbered in the order of their commits, and checks over several campaigns see each other's rows. A single shard
   * needs no more than the lock on its cursor. The caller reads nothing from Redis from here on, so a Redis that hangs
   * delays its own shard alone.
   */
  async lockWrites(client: Queryable): Promise<void> {
    if (this.hasOthers) await client.query(`select pg_advisory_xact_lock(${ADVISORY_LOCKS.write})`);
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
    for (const statement of lockWithHistory(this.shard)) results.push(await client.query(statement));
    return lockedCursor(results);
  }

  async move(client: Queryable, to: string): Promise<void> {
    await client.query('update journal_cursor set last_id = $1, updated_at = now() where shard = $2', [to, this.shard]);
  }

  /** Stores an entry that Postgres rejected, with the reason, for an operator. */
  async reject(client: Queryable, entry: RawEntry, reason: string): Promise<void> {
    await client.query(
      'insert into journal_rejects (journal_id, fields, reason) values ($1, $2, $3) on conflict do nothing',
      [entry.journalId, JSON.stringify(entry.fields), reason],
    );
  }
}

/** Reads the cursor from the results of `lockWithHistory`. */
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
