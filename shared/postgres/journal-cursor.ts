import type { RawEntry } from '../contracts/journal.js';
import type { Database, Queryable } from './pool.js';

/** Tables `journal_cursors` and `journal_rejects`: how far the journal was written, and what could not be. */
export class JournalCursors {
  constructor(
    readonly database: Database,
    /** Incarnation of Redis whose journal this is. */
    readonly epoch: string,
  ) {}

  async read(): Promise<string | null> {
    const { rows } = await this.database.query<{ last_id: string }>('select last_id from journal_cursors where epoch = $1', [
      this.epoch,
    ]);
    return rows[0]?.last_id ?? null;
  }

  /** Takes the cursor for this transaction; a second writer waits here. Returns how far the first one came. */
  async lock(client: Queryable, start: string): Promise<string> {
    const sql = 'select last_id from journal_cursors where epoch = $1 for update';
    const { rows } = await client.query<{ last_id: string }>(sql, [this.epoch]);
    if (rows[0]) return rows[0].last_id;
    await client.query('insert into journal_cursors (epoch, last_id) values ($1, $2) on conflict do nothing', [this.epoch, start]);
    const again = await client.query<{ last_id: string }>(sql, [this.epoch]);
    return again.rows[0]?.last_id ?? start;
  }

  async move(client: Queryable, to: string): Promise<void> {
    await client.query('update journal_cursors set last_id = $2, updated_at = now() where epoch = $1', [this.epoch, to]);
  }

  /** Keeps an entry that no table takes, with the reason, for a person to look at. */
  async reject(client: Queryable, entry: RawEntry, reason: string): Promise<void> {
    await client.query(
      `insert into journal_rejects (epoch, journal_id, fields, reason) values ($1, $2, $3, $4) on conflict do nothing`,
      [this.epoch, entry.journalId, JSON.stringify(entry.fields), reason],
    );
  }
}
