import type { Prepared } from './pool.js';

/**
 * A statement that each connection parses and plans once, under its name, instead of at every call. For statements of the
 * hot path alone: each connection keeps the plans of all names. The one place that decides about names, since a pooler in
 * transaction mode may not support them.
 * @param name unique for the text
 */
export function prepared(name: string, text: string, values: unknown[]): Prepared {
  return { name, text, values };
}

/**
 * A column of a batch as the parameter of `unnest`; a text without characters is null, as in all statements that take it.
 * A column without any value is sent as null, which `unnest` fills up with nulls: many columns of most batches.
 * @returns the literal of an array, since the driver escapes each element by itself; an array where the literal needs that
 */
export function columnOf<Row, Key extends keyof Row>(rows: readonly Row[], key: Key): unknown[] | string | null {
  let empty = true;
  let plain = true;
  const column = rows.map((row) => {
    const value = row[key];
    if (value === null || value === '') return null;
    empty = false;
    // JSON has none; Postgres refuses it.
    if (Number.isNaN(value)) plain = false;
    return value;
  });
  if (empty) return null;
  const json = JSON.stringify(column);
  // Both escape quotes by a backslash, but JSON has further escapes.
  return plain && !json.includes('\\') ? `{${json.slice(1, -1)}}` : column;
}
