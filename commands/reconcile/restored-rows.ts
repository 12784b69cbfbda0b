import type { Queryable } from '../../shared/postgres/pool.js';
import { type SnapshotTicket, TICKET_COLUMNS } from '../../shared/postgres/snapshot.js';
import type { Epoch } from '../../shared/redis/epoch.js';

/** An event of the stream. */
export type Published = { seq: number; id: string; atMs: number };

/**
 * Reads places, and repairs events and histories of a Postgres that was set back, in the caller's
 * transaction.
 */
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

  /**
   * Makes new events continue after the numbers of the stream. Events whose number another event has had were never
   * published, so they get a new number. The stream may no longer have the other event, or have skipped the number.
   * Then an event is new if it happened after the next one in the stream. An event about an erased user, which was
   * removed from the stream, did not.
   * @param published the events of the stream, in their order
   * @returns how many events got a new number
   */
  async continueOutbox(lastSeq: number, published: readonly Published[]): Promise<number> {
    await raiseSequence(this.client, 'outbox', 'seq', lastSeq);
    const [first] = published;
    if (!first) return 0;
    const { rows } = await this.client.query<{ seq: string; event_id: string; occurred_at: Date }>(
      `select seq, event_id, occurred_at from outbox_events
       where seq <= $1 and (seq >= $2 or occurred_at > ms($3)) order by seq`,
      [lastSeq, first.seq, first.atMs],
    );
    let [renumbered, next] = [0, 0];
    for (const row of rows) {
      const seq = Number(row.seq);
      while ((published[next]?.seq ?? seq) < seq) next += 1;
      const other = published[next];
      const isNew = other?.seq === seq ? other.id !== row.event_id : other && row.occurred_at.getTime() > other.atMs;
      if (!isNew) continue;
      await this.client.query('update outbox set seq = default where seq = $1', [seq]);
      renumbered += 1;
    }
    return renumbered;
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

/** Makes the sequence of a column continue after `to`, if it has not passed that number. */
export async function raiseSequence(client: Queryable, table: string, column: string, to: number): Promise<void> {
  await client.query(
    `select setval(name, $3) from (select pg_get_serial_sequence($1, $2)::regclass as name) s
       where coalesce(pg_sequence_last_value(name), 0) < $3::bigint`,
    [table, column, to],
  );
}
