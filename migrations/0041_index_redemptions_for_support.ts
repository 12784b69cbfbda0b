import type { Knex } from 'knex';

/** Its indexes are built without holding up writers, which no transaction can. An interrupted run can be repeated. */
export const config = { transaction: false };

/**
 * Finds redemptions by order, payment or code, attempts by user, and actions of operators by user. A new reservation
 * without an order id of the caller costs no more: its order id contains its reservation id, and rows by user are found
 * through the indexes by campaign and user (shared/postgres/redemption-search.ts).
 */
const INDEXES: { name: string; of: string }[] = [
  { name: 'by_order_id', of: `(order_id) where length(order_id) <> 28 or order_id not like 'ord\\_%'` },
  { name: 'by_payment_ref', of: '(payment_ref) where payment_ref is not null' },
  {
    name: 'ended_by_code',
    of: `(campaign_id, code_no) where code_no is not null and status not in ('reserved', 'redeemed') and not burned`,
  },
];

export async function up(knex: Knex): Promise<void> {
  const { rows } = await knex.raw(
    "select relid::regclass::text as leaf from pg_partition_tree('redemptions') where isleaf",
  );
  // Of a table without partitions, some versions of Postgres list no leaf.
  const leaves: string[] = rows.length > 0 ? rows.map(({ leaf }: { leaf: string }) => leaf) : ['redemptions'];
  for (const leaf of leaves) {
    // redemptions_add_partition() names the indexes of a new partition by those of redemptions_shared.
    const prefix = leaf === 'redemptions_shared' ? 'redemptions' : leaf;
    for (const { name, of } of INDEXES) await build(knex, `${prefix}_${name}`, `${leaf} ${of}`);
  }
  await build(knex, 'duplicate_payments_by_ref', 'duplicate_payments (payment_ref)');
  await build(
    knex,
    'redemption_attempts_by_user',
    'redemption_attempts (user_id, attempt_id) where user_id is not null',
  );
  await build(knex, 'audit_log_by_user', `audit_log ((after ->> 'user_id'), audit_id) where after ? 'user_id'`);
}

async function build(knex: Knex, name: string, on: string): Promise<void> {
  // What an interrupted build leaves is invalid. The operator "?" would be a parameter of knex.
  await knex.raw(`
    do $$ begin
      if exists (select 1 from pg_index where indexrelid = to_regclass('${name}') and not indisvalid) then
        drop index ${name};
      end if;
    end $$`);
  await knex.raw(`create index concurrently if not exists ${name} on ${on.replaceAll('?', '\\?')}`);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
