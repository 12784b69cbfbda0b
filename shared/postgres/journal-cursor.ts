import type { RawEntry } from '../contracts/journal.js';
import type { Database, Queryable } from './pool.js';

/** Tables `journal_cursor` and `journal_rejects`: how far the journal was written, and what could not be. */
export class JournalCursor {
  constructor(readonly database: Database) {}

  /** Id of the last entry that is committed here. */
  async read(): Promise<string> {
    return lastId(await this.database.query<{ last_id: string }>('select last_id from journal_cursor'));
  }

  /**
   * Takes the cursor for this transaction; a second writer waits here. Returns how far the first one came. Whoever writes batches finds
   * rows by their keys: the planner would rather read all of a table that is not large yet, for every batch anew. What is forbidden counts as dear, which must not make it compile.
   */
  async lock(client: Queryable): Promise<string> {
    return (await this.lockWithHistory(client)).cursor;
  }

  /**
   * The same, with the generation of the latest history (null before the first one). A history begins under this lock, so
   * it stays the latest until the transaction ends.
   */
  async lockWithHistory(client: Queryable): Promise<{ cursor: string; generation: number | null }> {
    // By itself: a statement that has waited for a lock still sees the histories of the moment at which it began.
    await client.query('select 1 from journal_cursor for update');
    const result = await client.query<{ last_id: string; generation: string | null }>(
      `select last_id, (select max(generation) from journal_histories) as generation,
         set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true) from journal_cursor for update`,
    );
    const generation = result.rows[0]?.generation ?? null;
    return { cursor: lastId(result), generation: generation === null ? null : Number(generation) };
  }

  async move(client: Queryable, to: string): Promise<void> {
    await client.query('update journal_cursor set last_id = $1, updated_at = now()', [to]);
  }

  /** Keeps an entry that no table takes, with the reason, for a person to look at. */
  async reject(client: Queryable, entry: RawEntry, reason: string): Promise<void> {
    await client.query(
      'insert into journal_rejects (journal_id, fields, reason) values ($1, $2, $3) on conflict do nothing',
      [entry.journalId, JSON.stringify(entry.fields), reason],
    );
  }
}

function lastId({ rows }: { rows: { last_id: string }[] }): string {
  const [row] = rows;
  if (!row) throw new Error('journal_cursor has lost its row');
  return row.last_id;
}
