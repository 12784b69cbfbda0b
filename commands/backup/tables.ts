import type { Queryable } from '../../shared/postgres/pool.js';

/** A table with the columns that have values of their own; generated ones are computed again. */
export type Table = { name: string; columns: readonly string[] };

/** Sequence → its last value; null = it was never used. */
export type Sequences = Readonly<Record<string, string | null>>;

/**
 * Tables that a backup leaves out: processes that are alive, and the migrations, which are run instead of copied.
 */
const LEFT_OUT = ['journal_processes', 'schema_migrations', 'schema_migrations_lock'];

/** Reads the tables, each after the tables that it refers to. Partitions are read through their table. */
export async function readTables(client: Queryable): Promise<Table[]> {
  const { rows } = await client.query<Table>(
    `select c.relname as name, array_agg(a.attname::text order by a.attnum) as columns
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and a.attgenerated = '' and c.relname <> all ($1)
     group by c.relname order by c.relname`,
    [LEFT_OUT],
  );
  const references = await client.query<{ from: string; to: string }>(
    `select f.relname as from, t.relname as to from pg_constraint k
     join pg_class f on f.oid = k.conrelid join pg_class t on t.oid = k.confrelid
     where k.contype = 'f' and k.conparentid = 0 and k.conrelid <> k.confrelid
       and f.relnamespace = 'public'::regnamespace`,
  );
  return inOrder(rows, references.rows);
}

function inOrder(tables: readonly Table[], references: readonly { from: string; to: string }[]): Table[] {
  const sorted: Table[] = [];
  let left = [...tables];
  while (left.length > 0) {
    const names = new Set(left.map(({ name }) => name));
    const next = left.filter(({ name }) => !references.some(({ from, to }) => from === name && names.has(to)));
    if (next.length === 0) throw new Error(`these tables refer to each other: ${[...names].join(', ')}`);
    sorted.push(...next);
    left = left.filter((table) => !next.includes(table));
  }
  return sorted;
}

export async function readSequences(client: Queryable): Promise<Sequences> {
  const { rows } = await client.query<{ name: string; last: string | null }>(
    `select sequencename as name, last_value::text as last from pg_sequences
     where schemaname = 'public' and sequencename <> all ($1)`,
    [LEFT_OUT.map((name) => `${name}_${name.endsWith('_lock') ? 'index' : 'id'}_seq`)],
  );
  return Object.fromEntries(rows.map(({ name, last }) => [name, last]));
}

/** Quotes the name of a table or column, which COPY cannot take as a parameter. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
