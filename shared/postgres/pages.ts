import type { Queryable } from './pool.js';

/** `after`: the key before the first row. `keyOf`: the key of a row, in whose order the statement returns rows. */
type Pages<Row> = { campaignId: string; batch: number; after: unknown; keyOf: (row: Row) => unknown };

/**
 * Yields rows of a campaign page by page, none of them empty.
 * @param sql gets the campaign as $1, the number of rows as $2, the last key of the page before as $3, then `values`
 */
export async function* pagesOf<Row extends object>(
  client: Queryable,
  sql: string,
  { campaignId, batch, after, keyOf }: Pages<Row>,
  values: readonly unknown[] = [],
): AsyncGenerator<Row[]> {
  for (let last = after; ; ) {
    const { rows }: { rows: Row[] } = await client.query<Row>(sql, [campaignId, batch, last, ...values]);
    if (rows.length > 0) yield rows;
    const end = rows.at(-1);
    if (!end || rows.length < batch) return;
    last = keyOf(end);
  }
}
