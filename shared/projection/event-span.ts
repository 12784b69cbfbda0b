import { RECORDS_VERSION } from '../postgres/heartbeats.js';
import type { Queryable } from '../postgres/pool.js';

/** The position of a transaction's events in the outbox. `after`: the last event before them; 0 = none. */
export type EventSpan = { after: number; first: number; last: number; count: number };

export type SpanRow = {
  after: string | null;
  first: string | null;
  last: string | null;
  count: number;
  earlier: boolean;
};

/**
 * The end of a statement that writes events. It returns their span, and whether a live process needs the events in the
 * form of earlier versions.
 * @param made name of the query that returns the `seq` of each new event
 */
export function spanSql(made: string): string {
  return `select (select max(seq) from outbox) as after, min(seq) as first, max(seq) as last, count(*)::int as count,
    exists (select 1 from journal_processes where version < ${RECORDS_VERSION}
      and seen_at > clock_timestamp() - interval '1 minute') as earlier from ${made}`;
}

/** Fills in the columns that processes of earlier versions read. Leaves out events that were published before. */
const COMPLETE = `
  update outbox o set event_id = v.event_id, subject = v.subject, product_id = v.product_id, trace = v.trace, data = v.data
  from outbox_events v
  where v.seq = o.seq and o.seq between $1 and $2 and o.data is null
    and (o.event_id is not null or not exists (select 1 from outbox x where x.event_id = v.event_id))`;

/**
 * Reads the span, and completes its events if a live process of an earlier version needs that.
 * @returns null when nothing was written
 */
export async function spanOf(client: Queryable, { rows: [row] }: { rows: SpanRow[] }): Promise<EventSpan | null> {
  if (!row || row.count === 0) return null;
  if (row.earlier) await client.query(COMPLETE, [row.first, row.last]);
  return { after: Number(row.after ?? 0), first: Number(row.first), last: Number(row.last), count: row.count };
}
