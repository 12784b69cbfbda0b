import type pg from 'pg';

/** All rows and sequences of a database at one moment. */
export type Backup = { tables: Map<string, string>; sequences: Map<string, string | null> };

export async function takeBackup(sql: pg.Client): Promise<Backup> {
  const tables = new Map<string, string>();
  const { rows: names } = await sql.query<{ name: string }>(
    "select tablename as name from pg_tables where schemaname = 'public' and tablename not like 'schema_migrations%' order by 1",
  );
  for (const { name } of names) {
    const { rows } = await sql.query(
      `select coalesce(jsonb_agg(t order by t::text), '[]')::text as all from ${name} t`,
    );
    tables.set(name, rows[0].all);
  }
  const { rows } = await sql.query<{ name: string; last: string | null }>(
    "select sequencename as name, last_value as last from pg_sequences where schemaname = 'public'",
  );
  return { tables, sequences: new Map(rows.map(({ name, last }) => [name, last])) };
}

/** Sets the database back to that moment, as a restore from a backup does. */
export async function goBack(sql: pg.Client, { tables, sequences }: Backup): Promise<void> {
  await sql.query('begin');
  await sql.query("set local session_replication_role = 'replica'");
  for (const [name, rows] of tables) {
    await sql.query(`delete from ${name}`);
    await sql.query(
      `insert into ${name} overriding system value select * from jsonb_populate_recordset(null::${name}, $1)`,
      [rows],
    );
  }
  for (const [name, last] of sequences) {
    if (last === null) await sql.query(`alter sequence ${name} restart`);
    else await sql.query('select setval($1, $2)', [name, last]);
  }
  await sql.query('commit');
}
