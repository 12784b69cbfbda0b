import type { Queryable } from '../../shared/postgres/pool.js';
import { type SnapshotTicket, TICKET_COLUMNS } from '../../shared/postgres/snapshot.js';
import type { Epoch } from '../../shared/redis/epoch.js';

/** Reads places, and repairs histories of a Postgres that was set back, in the caller's transaction. */
export class RestoredRows {
  constructor(readonly client: Queryable) {}

  /** Those of these line numbers that have a place. */
  async lineNumbers(campaignId: string, lineNos: readonly number[]): Promise<ReadonlySet<number>> {
    if (lineNos.length === 0) return new Set();
    const { rows } = await this.client.query<{ lineNo: number }>(
      `select line_no::float8 as "lineNo" from waiting_tickets where campaign_id = $1 and line_no = any($2::bigint[])`,
      [campaignId, lineNos],
    );
    return new Set(rows.map(({ lineNo }) => lineNo));
  }

  /** The numbers of those of these places that have ended and belong to another user. */
  async placesOfOthers(
    campaignId: string,
    places: readonly { lineNo: number; user: string }[],
  ): Promise<ReadonlySet<number>> {
    const { rows } = await this.client.query<{ lineNo: number }>(
      `select t.line_no::float8 as "lineNo"
       from waiting_tickets t join unnest($2::bigint[], $3::text[]) as n(line_no, "user") using (line_no)
       where t.campaign_id = $1 and t.user_id <> n."user" and t.status <> 'waiting'`,
      [campaignId, places.map(({ lineNo }) => lineNo), places.map(({ user }) => user)],
    );
    return new Set(rows.map(({ lineNo }) => lineNo));
  }

  /** The waiting places of these users. */
  async waitingTickets(campaignId: string, users: readonly string[]): Promise<SnapshotTicket[]> {
    const { rows } = await this.client.query<SnapshotTicket>(
      `select ${TICKET_COLUMNS} from waiting_tickets where campaign_id = $1 and status = 'waiting' and user_id = any($2)`,
      [campaignId, users],
    );
    return rows;
  }

  /** Marks archived campaigns of which records are lost, because Redis may lose its own mark. */
  async markLost(numbers: readonly number[]): Promise<void> {
    await this.client.query(
      'update campaigns set records_lost_at = now() where no = any($1::int[]) and records_lost_at is null',
      [numbers],
    );
  }

  /** Writes the current history of Redis, if Postgres lacks it. */
  async keepHistory({ generation, server }: Epoch, afterId: string, shard: number): Promise<void> {
    await this.client.query(
      `insert into journal_histories (generation, server, after_id, reason, opened_at, shard)
       values ($1, $2, $3, 'postgres restored', now(), $4) on conflict (generation) do nothing`,
      [generation, server, afterId, shard],
    );
  }
}
