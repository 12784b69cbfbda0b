import type { EventType, OutboxEvent } from '../contracts/events.js';
import type { NewEvent } from './events-of-entries.js';
import type { Database, Queryable } from './pool.js';

type Row = {
  seq: string;
  event_id: string;
  type: EventType;
  subject: string;
  occurred_at: Date;
  trace: string | null;
  data: Record<string, unknown>;
};

const VOIDED: EventType = 'dev.doorbuster.redemption.voided.v1';

/**
 * Writes events in the transaction that caused them, after its rows, from which they take user, order, quantity, and the
 * discount of the terms they were made under. The
 * caller holds the lock on `journal_cursor`: so whoever takes a `seq` commits before the next one takes one, and the order of
 * `seq` is the order of commits. A reader that has seen one will never find an earlier one afterwards.
 * An event that is there already is not told again; nothing is told of a reservation after it was voided.
 */
export async function insertEvents(client: Queryable, events: readonly NewEvent[]): Promise<void> {
  if (events.length === 0) return;
  await client.query(
    `insert into outbox (event_id, type, subject, campaign_id, product_id, occurred_at, trace, data)
     select event_id_of(n.once, n.type), n.type, coalesce(n.reservation::text, c.product_id), c.campaign_id, c.product_id,
       coalesce(ms(n.at), now()), nullif(n.trace, ''),
       jsonb_build_object('campaign_id', c.campaign_id, 'product_id', c.product_id)
         || case when n.reservation is null then '{}'::jsonb else jsonb_build_object('reservation_id', r.redemption_id,
              'user_id', r.user_id, 'order_id', r.order_id, 'qty', r.qty,
              'discount', case when t.version is null then c.discount else t.discount end,
              'device_fp', coalesce(r.device_fp, (select w.device_fp from waiting_tickets w
                 where w.campaign_id = r.campaign_id and w.line_no = r.line_no))) end
         || n.data
     from unnest($1::text[], $2::int[], $3::uuid[], $4::text[], $5::bigint[], $6::text[], $7::jsonb[])
       with ordinality as n(type, no, reservation, once, at, trace, data, position)
     join campaigns c on c.no = n.no
     left join redemptions r on r.redemption_id = n.reservation
     left join campaign_terms t on t.campaign_id = r.campaign_id and t.version = r.terms_version
     where (n.reservation is null or r.redemption_id is not null)
       and (r.status is distinct from 'voided'
         or not exists (select 1 from outbox o where o.event_id = event_id_of(n.once, '${VOIDED}')))
     order by n.position
     on conflict (event_id) do nothing`,
    [
      events.map(({ type }) => type),
      events.map(({ no }) => no),
      events.map(({ reservation }) => reservation),
      events.map(({ once }) => once),
      events.map(({ atMs }) => atMs),
      events.map(({ trace }) => trace),
      events.map(({ data }) => JSON.stringify(data)),
    ],
  );
}

export type EventRange = { after: number; upTo: number; types: readonly string[] | null };

/** Table `outbox`, as those read it who carry events to others. */
export class Outbox {
  constructor(readonly database: Database) {}

  /** 0 = there is none */
  async lastSeq(): Promise<number> {
    const { rows } = await this.database.query<{ seq: string }>('select coalesce(max(seq), 0) as seq from outbox');
    return Number(rows[0]?.seq ?? 0);
  }

  /** Events later than `after` and up to `upTo`, in their order. */
  async read({ after, upTo, types }: EventRange, limit: number): Promise<OutboxEvent[]> {
    const { rows } = await this.database.query<Row>(
      `select seq, event_id, type, subject, occurred_at, trace, data from outbox
       where seq > $1 and seq <= $2 and ($3::text[] is null or type = any($3)) order by seq limit $4`,
      [after, upTo, types, limit],
    );
    return rows.map(fromRow);
  }

  /** Age of the first event later than `after`; 0 = there is none. */
  async lagSeconds(after: number): Promise<number> {
    const { rows } = await this.database.query<{ seconds: number }>(
      `select greatest(0, extract(epoch from now() - occurred_at))::float8 as seconds from outbox
       where seq > $1 order by seq limit 1`,
      [after],
    );
    return rows[0]?.seconds ?? 0;
  }

  /**
   * Forgets events that are old enough and that the stream and every endpoint in use have.
   * @returns how many were removed; fewer than `limit` when nothing is left to remove
   */
  async prune(streamSeq: number, olderThanMs: number, limit: number): Promise<number> {
    const { rowCount } = await this.database.query(
      `delete from outbox where seq in (
         select seq from outbox
         where seq <= least($1::bigint, (select min(last_seq) from webhook_endpoints where enabled))
           and occurred_at < now() - make_interval(secs => $2) order by seq limit $3)`,
      [streamSeq, olderThanMs / 1000, limit],
    );
    return rowCount ?? 0;
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
