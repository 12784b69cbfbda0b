import type { Knex } from 'knex';

/** The index is built without holding up writers, which no transaction can. An interrupted run can be repeated. */
export const config = { transaction: false };

/** Finds the few payments that an operator has to look at among those that were counted, latest first. */
export async function up(knex: Knex): Promise<void> {
  // What an interrupted build leaves is invalid.
  await knex.raw(`
    do $$ begin
      if exists (
        select 1 from pg_index where indexrelid = to_regclass('payment_events_by_outcome') and not indisvalid
      ) then
        drop index payment_events_by_outcome;
      end if;
    end $$`);
  await knex.raw(
    'create index concurrently if not exists payment_events_by_outcome on payment_events (outcome, received_at)',
  );
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
