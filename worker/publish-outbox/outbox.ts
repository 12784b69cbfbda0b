import type { EventType, OutboxEvent } from '../../shared/contracts/events.js';
import { continueOutbox, type Published } from '../../shared/postgres/outbox-numbers.js';
import type { Database } from '../../shared/postgres/pool.js';

type Row = {
  seq: string;
  event_id: string;
  type: EventType;
  subject: string;
  occurred_at: Date;
  trace: string | null;
  data: Record<string, unknown>;
};

export type EventRange = {
  after: number;
  upTo: number;
  types: readonly string[] | null;
  /** Ids of campaigns; null or left out = all. */
  campaigns?: readonly string[] | null;
};

const IS_AHEAD = `select from pg_sequence_last_value(pg_get_serial_sequence('outbox', 'seq')::regclass) as last
  where coalesce(last, 0) < $1::bigint`;

/** Table `outbox` and view `outbox_events`, for the stream and the webhooks. */
export class Outbox {
  constructor(readonly database: Database) {}

  /** Sequence number of the last event; 0 = none. */
  async lastSeq(): Promise<number> {
    const { rows } = await this.database.query<{ seq: string }>('select coalesce(max(seq), 0) as seq from outbox');
    return Number(rows[0]?.seq ?? 0);
  }

  /** Whether this number was never given, so that Postgres was set back if the stream has it. */
  async isAhead(seq: number): Promise<boolean> {
    const { rows } = await this.database.query(IS_AHEAD, [seq]);
    return rows.length > 0;
  }

  /**
   * Makes new events continue after the numbers of the stream, unless another worker has done so.
   * @returns how many events got a new number
   */
  continueAfter(seq: number, published: readonly Published[]): Promise<number> {
    return this.database.transaction(async (client) => {
      // Waits for the writers, because a number that they have taken is visible only after their commit.
      await client.query('lock table outbox in share row exclusive mode');
      const { rows } = await client.query(IS_AHEAD, [seq]);
      return rows.length > 0 ? continueOutbox(client, seq, published) : 0;
    });
  }

  /** Events after `after` and up to `upTo`, in order. */
  async read({ after, upTo, types, campaigns = null }: EventRange, limit: number): Promise<OutboxEvent[]> {
    const { rows } = await this.database.query<Row>(
      `select seq, event_id, type, subject, occurred_at, trace, data from outbox_events
       where seq > $1 and seq <= $2 and ($3::text[] is null or type = any($3))
         and ($5::uuid[] is null or campaign_id = any($5)) order by seq limit $4`,
      [after, upTo, types, limit, campaigns],
    );
    return rows.map(fromRow);
  }

  /** Age in seconds of the first event after `after`; 0 = no such event. */
  async lagSeconds(after: number): Promise<number> {
    const { rows } = await this.database.query<{ seconds: number }>(
      `select greatest(0, extract(epoch from now() - occurred_at))::float8 as seconds from outbox
       where seq > $1 order by seq limit 1`,
      [after],
    );
    return rows[0]?.seconds ?? 0;
  }

  /**
   * Deletes events that are old enough, and that the stream and every enabled endpoint have received. Events that Kafka
   * lacks are kept longer.
   * @param kafka null = there is no Kafka
   * @returns how many were removed, fewer than `limit` when nothing is left to remove, and how many of them Kafka lacks
   */
  async prune(
    streamSeq: number,
    olderThanMs: number,
    limit: number,
    kafka: { keepMs: number } | null = null,
  ): Promise<{ removed: number; skipped: number }> {
    const { rows } = await this.database.query<{ removed: number; skipped: number }>(
      `with sent as (
         select least($1::bigint, (select min(last_seq) from webhook_endpoints where enabled),
           (select min(p.seq) - 1 from webhook_parked p join webhook_endpoints e using (endpoint_id)
            where e.enabled and p.attempts > 0 and p.next_attempt_at < 'infinity')) as seq
       ), kafka as (
         select case when $4::float8 is null then null else
           coalesce((select last_seq from outbox_cursors where destination = 'kafka'), 0) end as seq
       ), old as (
         (select seq from outbox where seq <= least((select seq from sent), (select seq from kafka))
            and occurred_at < now() - make_interval(secs => $2) order by seq limit $3)
         union
         (select seq from outbox where seq <= (select seq from sent)
            and occurred_at < now() - make_interval(secs => greatest($2, $4)) and $4 is not null order by seq limit $3)
       ), removed as (
         delete from outbox where seq in (select seq from old order by seq limit $3) returning seq
       ), counted as (
         select count(*)::int as removed, (count(*) filter (where seq > (select seq from kafka)))::int as skipped
         from removed
       ), noted as (
         update outbox_cursors c set skipped = c.skipped + n.skipped from counted n
         where c.destination = 'kafka' and n.skipped > 0
       )
       select removed, skipped from counted`,
      [streamSeq, olderThanMs / 1000, limit, kafka && kafka.keepMs / 1000],
    );
    return rows[0] ?? { removed: 0, skipped: 0 };
  }
}

function fromRow(row: Row): OutboxEvent {
  return {
    seq: Number(row.seq),
    id: row.event_id,
    type: row.type,
    subject: row.subject,
    occurredAt: row.occurred_at,
    trace: row.trace,
    data: row.data,
  };
}
