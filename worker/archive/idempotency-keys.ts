import type { OwnedKey } from '../../shared/domain/ids.js';
import type { Database } from '../../shared/postgres/pool.js';
import { ANSWER_COLUMNS } from '../../shared/postgres/snapshot.js';

/** The position at which a walk over a campaign's idempotency keys begins, and the one at which it has ended. */
export const FIRST_KEY = '';
export const ALL_KEYS = 'done';

const TABLES = ['redemptions', 'waiting_tickets', 'remembered_answers'] as const;
type Table = (typeof TABLES)[number];
/**
 * For each table: the column by which the rows of a campaign are read in order (an index covers it), its type, and a
 * value before the first row.
 */
const OWNED = 'user_id as "user", idempotency_key as key';
const WALKS: Record<Table, { id: string; type: string; first: string; columns: string }> = {
  redemptions: { id: 'redemption_id', type: 'uuid', first: '00000000-0000-0000-0000-000000000000', columns: OWNED },
  waiting_tickets: { id: 'line_no', type: 'bigint', first: '0', columns: OWNED },
  remembered_answers: { id: 'idempotency_key', type: 'text', first: '', columns: ANSWER_COLUMNS },
};

/** The idempotency keys of campaigns: those of reservations, of tickets, and of idempotency records without either. */
export class IdempotencyKeys {
  constructor(readonly database: Database) {}

  /** Walks the keys of a campaign. @param after FIRST_KEY, or `upTo` of the page before: a table and its last row */
  async page(campaignId: string, after: string, limit: number): Promise<{ keys: OwnedKey[]; upTo: string }> {
    const [name, ...rest] = after.split(' ');
    const table = TABLES.find((one) => one === name) ?? 'redemptions';
    const { id, type, first, columns } = WALKS[table];
    const { rows } = await this.database.query<{ id: string; user: string; key: string | null }>(
      `select ${id}::text as id, ${columns} from ${table}
       where campaign_id = $1 and ${id} > $2::${type} order by ${table}.${id} limit $3`,
      [campaignId, after === FIRST_KEY ? first : rest.join(' ') || first, limit],
    );
    const next = TABLES[TABLES.indexOf(table) + 1];
    const upTo = rows.length === limit ? `${table} ${rows.at(-1)?.id}` : (next ?? ALL_KEYS);
    return { keys: rows.flatMap(({ user, key }) => (key === null ? [] : [{ user, key }])), upTo };
  }

  /** Deletes records without either that are older than the lifetime of a key, at most `limit` rows. */
  async prune(olderThanMs: number, limit: number): Promise<void> {
    await this.database.query(
      `delete from remembered_answers where (campaign_id, idempotency_key) in (
         select campaign_id, idempotency_key from remembered_answers where made_at < now() - make_interval(secs => $1)
         order by made_at limit $2)`,
      [olderThanMs / 1000, limit],
    );
  }
}
