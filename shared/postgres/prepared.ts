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
 * A column of a batch as the parameter of `unnest`. A column without any value is sent as null, which `unnest` fills up
 * with nulls: most columns of most batches.
 */
export function columnOf<Row, Key extends keyof Row>(rows: readonly Row[], key: Key): Row[Key][] | null {
  let empty = true;
  const column = rows.map((row) => {
    const value = row[key];
    if (value !== null) empty = false;
    return value;
  });
  return empty ? null : column;
}
