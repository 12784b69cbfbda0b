import type { Prepared } from './pool.js';

/**
 * A statement that each connection parses and plans once instead of at every call. Only for statements of the hot path
 * and of each half second, because each connection keeps the plan of every name. Behind a pooler, the name is left out
 * (pool.ts).
 * @param name unique to the text
 */
export function prepared(name: string, text: string, values: unknown[]): Prepared {
  return { name, text, values };
}

/**
 * Makes the parameter of `unnest` for one column of a batch. Empty texts become null. A column without any value is
 * sent as null, which `unnest` extends with nulls; in most batches, many columns are empty.
 * @returns an array literal, because the driver is slow at escaping each element; an array if the elements need
 *   escaping
 */
export function columnOf<Row, Key extends keyof Row>(rows: readonly Row[], key: Key): unknown[] | string | null {
  let empty = true;
  let plain = true;
  const column = rows.map((row) => {
    const value = row[key];
    if (value === null || value === '') return null;
    empty = false;
    // JSON has no NaN. Passed as an array, Postgres rejects the value.
    if (Number.isNaN(value)) plain = false;
    return value;
  });
  if (empty) return null;
  const json = JSON.stringify(column);
  // JSON and array literals escape quotes alike, but JSON has other escapes too.
  return plain && !json.includes('\\') ? `{${json.slice(1, -1)}}` : column;
}
