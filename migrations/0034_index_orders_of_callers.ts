import type { Knex } from 'knex';

/** Its index is built without holding up writers, which no transaction can. An interrupted run is repeated as it is. */
export const config = { transaction: false };

/**
 * Finds reservations by an order id that a caller has chosen. An order id that a script has made contains its
 * reservation id, and is not in the index, so that a checkout costs no more.
 */
export async function up(knex: Knex): Promise<void> {
  const { rows } = await knex.raw(
    "select relid::regclass::text as leaf from pg_partition_tree('redemptions') where isleaf",
  );
  // Of a table without partitions, some versions of Postgres list no leaf.
  const leaves: string[] = rows.length > 0 ? rows.map(({ leaf }: { leaf: string }) => leaf) : ['redemptions'];
  for (const leaf of leaves) {
    // redemptions_add_partition() names the indexes of a new partition by those of redemptions_shared.
    const name = `${leaf === 'redemptions_shared' ? 'redemptions' : leaf}_by_order_id`;
    // What an interrupted build leaves is invalid.
    await knex.raw(`
      do $$ begin
        if exists (select 1 from pg_index where indexrelid = to_regclass('${name}') and not indisvalid) then
          drop index ${name};
        end if;
      end $$`);
    await knex.raw(`create index concurrently if not exists ${name} on ${leaf} (order_id)
      where length(order_id) <> 28 or order_id not like 'ord\\_%'`);
  }
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
