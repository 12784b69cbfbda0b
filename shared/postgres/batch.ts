import { columnOf } from './prepared.js';

/**
 * Rows as one parameter for each column, which a statement reads as a table: `insert … select … from ${batch.sql}`. SQL
 * ignores the case of names, so the statement may write `n.atMs` as the field is called; `user` and other words of SQL
 * need quotes.
 */
export class Batch<Field extends string> {
  /** `unnest($1::type[], …) as n("field", …)` */
  readonly sql: string;
  /** The same with the column `position`, from 1. */
  readonly numbered: string;
  readonly #fields: readonly Field[];

  /** @param types the SQL type of each field, in the order of the parameters */
  constructor(types: Readonly<Record<Field, string>>) {
    this.#fields = Object.keys(types) as Field[];
    const columns = this.#fields.map((field) => `"${field.toLowerCase()}"`).join(', ');
    const table = `unnest(${this.#fields.map((field, i) => `$${i + 1}::${types[field]}[]`).join(', ')})`;
    this.sql = `${table} as n(${columns})`;
    this.numbered = `${table} with ordinality as n(${columns}, position)`;
  }

  /** How many parameters the rows are. */
  get count(): number {
    return this.#fields.length;
  }

  /** The parameters of rows. */
  of(rows: readonly Readonly<Record<Field, unknown>>[]): unknown[] {
    return this.#fields.map((field) => rows.map((row) => row[field]));
  }

  /** The same for the hot path, where most columns are empty. Empty texts become null (`columnOf`). */
  ofSparse(rows: readonly Readonly<Record<Field, unknown>>[]): unknown[] {
    return this.#fields.map((field) => columnOf(rows, field));
  }
}
