import type pg from 'pg';

/** The position of a transaction's events in the outbox. `after`: the last event before them; 0 = none. */
export type EventSpan = { after: number; first: number; last: number; count: number };

export type SpanRow = { after: string | null; first: string | null; last: string | null; count: number };

/**
 * The end of a statement that writes events. It returns their span.
 * @param made name of the query that returns the `seq` of each new event
 */
export function spanSql(made: string): string {
  return `select (select max(seq) from outbox) as after, min(seq) as first, max(seq) as last, count(*)::int as count
    from ${made}`;
}

/** Reads the span; null = nothing was written. */
export function spanOf({ rows: [row] }: Pick<pg.QueryResult<SpanRow>, 'rows'>): EventSpan | null {
  if (!row || row.count === 0) return null;
  return { after: Number(row.after ?? 0), first: Number(row.first), last: Number(row.last), count: row.count };
}
