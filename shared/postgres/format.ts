import { FORMAT } from '../domain/format.js';
import { ForeignFormat } from '../errors/faults.js';
import type { Queryable } from './pool.js';

/** Reads the format of the tables; 0 = they have no number, null = there are none. */
export async function readFormat(client: Queryable): Promise<number | null> {
  const { rows } = await client.query<{ made: boolean; numbered: boolean }>(
    `select to_regclass('campaigns') is not null as made,
       exists (select 1 from pg_attribute where attrelid = to_regclass('installation') and attname = 'format') as numbered`,
  );
  if (!rows[0]?.numbered) return rows[0]?.made ? 0 : null;
  const { rows: found } = await client.query<{ format: number }>('select format from installation');
  return found[0]?.format ?? 0;
}

/** @throws ForeignFormat when the tables have another format */
export async function requireFormat(client: Queryable): Promise<void> {
  const found = await readFormat(client);
  if (found !== null && found !== FORMAT) throw new ForeignFormat('Postgres', found);
}
