import type { RawEntry } from '../contracts/journal.js';
import type { Database, Queryable } from './pool.js';

/**
 * Table `recovered_entries`: journal entries of one shard that a new history of Redis lacks. The processes that
 * acknowledged the entries write them; a promise that was acknowledged again has the id of its journal position and a
 * name (`generation-n-name`). The worker that recovers Redis applies each once. If the campaign has moved since, the
 * entry is given to the shard of the campaign. Applied entries are kept, so that an entry that a second process saves
 * later is not applied again.
 */
export class RecoveredEntries {
  constructor(
    readonly database: Database,
    readonly shard = 0,
  ) {}

  /** Saves entries. An existing entry stays as it is. @param entries at most some thousand */
  async save(processId: string, entries: readonly RawEntry[]): Promise<void> {
    if (entries.length === 0) return;
    await this.database.query(
      `insert into recovered_entries (journal_id, generation, number, fields, process_id, shard)
       select id, split_part(id, '-', 1)::bigint, split_part(id, '-', 2)::bigint, fields, $3, $4
       from unnest($1::text[], $2::jsonb[]) as n(id, fields) on conflict (journal_id) do nothing`,
      [
        entries.map(({ journalId }) => journalId),
        entries.map(({ fields }) => JSON.stringify(fields)),
        processId,
        this.shard,
      ],
    );
  }

  async hasPending(): Promise<boolean> {
    const text = 'select 1 from recovered_entries where shard = $1 and applied_at is null limit 1';
    const { rows } = await this.database.query(text, [this.shard]);
    return rows.length > 0;
  }

  /** Entries that are not applied yet, in the order of the journal. */
  async pending(client: Queryable, limit: number): Promise<RawEntry[]> {
    const { rows } = await client.query<{ journal_id: string; fields: Record<string, string> }>(
      `select journal_id, fields from recovered_entries where shard = $2 and applied_at is null
       order by generation, number, journal_id limit $1`,
      [limit, this.shard],
    );
    return rows.map(({ journal_id, fields }) => ({ journalId: journal_id, fields }));
  }

  /** Facts about these reservations that are not applied yet. */
  async factsAbout(client: Queryable, reservations: readonly string[]): Promise<RawEntry[]> {
    if (reservations.length === 0) return [];
    const { rows } = await client.query<{ id: string; fields: Record<string, string> }>(
      `select journal_id as id, fields from recovered_entries
       where applied_at is null and fields ->> 'kind' = 'acknowledged' and fields ->> 'reservation' = any($1)`,
      [reservations],
    );
    return rows.map(({ id, fields }) => ({ journalId: id, fields }));
  }

  /** The idempotency records of these restocks, which follow them in the journal. */
  async recordsOf(client: Queryable, restocks: readonly string[]): Promise<RawEntry[]> {
    if (restocks.length === 0) return [];
    const { rows } = await client.query<{ id: string; fields: Record<string, string> }>(
      `select journal_id as id, fields from recovered_entries
       where fields ->> 'kind' = 'answered' and fields ->> 'answer' like 'restock|%'
         and substring(fields ->> 'answer' from '[^|]*$') = any($1)`,
      [restocks],
    );
    return rows.map(({ id, fields }) => ({ journalId: id, fields }));
  }

  /** Gives entries to another shard, whose recovery applies them. */
  async give(client: Queryable, entries: readonly RawEntry[], shard: number): Promise<void> {
    await client.query('update recovered_entries set shard = $2 where journal_id = any($1::text[])', [
      entries.map(({ journalId }) => journalId),
      shard,
    ]);
  }

  async markApplied(client: Queryable, entries: readonly Pick<RawEntry, 'journalId'>[]): Promise<void> {
    await client.query('update recovered_entries set applied_at = now() where journal_id = any($1::text[])', [
      entries.map(({ journalId }) => journalId),
    ]);
  }

  /** Deletes entries that were applied more than `olderThanMs` ago. */
  async prune(olderThanMs: number): Promise<void> {
    await this.database.query('delete from recovered_entries where applied_at < now() - make_interval(secs => $1)', [
      olderThanMs / 1000,
    ]);
  }
}
