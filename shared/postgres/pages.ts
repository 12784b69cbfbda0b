import type { Database } from './pool.js';

/** `after`: the key before the first row. `keyOf`: the key of a row, in whose order the statement returns rows. */
type Pages<Row> = { campaignId: string; batch: number; after: unknown; keyOf: (row: Row) => unknown };

/**
 * Yields rows of a campaign page by page, none of them empty.
 * @param sql gets the campaign as $1, the number of rows as $2, the last key of the page before as $3, then `values`
 */
export async function* pagesOf<Row extends object>(
  database: Database,
  sql: string,
  { campaignId, batch, after, keyOf }: Pages<Row>,
  values: readonly unknown[] = [],
): AsyncGenerator<Row[]> {
  for (let last = after; ; ) {
    const rows = await readInOrder<Row>(database, sql, [campaignId, batch, last, ...values]);
    if (rows.length > 0) yield rows;
    const end = rows.at(-1);
    if (!end || rows.length < batch) return;
    last = keyOf(end);
  }
}

/**
 * Reads one page of rows in the order of an index. In a table that Postgres has not analyzed, as after a restore or
 * within a minute of a large sale, it would rather read all remaining rows for each page, and sort them.
 */
export function readInOrder<Row extends object>(database: Database, sql: string, values: unknown[]): Promise<Row[]> {
  return database.transaction(async (client) => {
    await client.query('set local enable_bitmapscan = off');
    return (await client.query<Row>(sql, values)).rows;
  });
}
