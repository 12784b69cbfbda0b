import type { Knex } from 'knex';

/** The index is built without holding up writers, which no transaction can. An interrupted run can be repeated. */
export const config = { transaction: false };

/**
 * Finds the events of a reservation, whatever their type. The first one is left out, so that a checkout costs no more:
 * it is found by its time, which the row has (shared/postgres/events-of-reservation.ts).
 */
export async function up(knex: Knex): Promise<void> {
  // What an interrupted build leaves is invalid.
  await knex.raw(`
    do $$ begin
      if exists (select 1 from pg_index where indexrelid = to_regclass('outbox_by_reservation') and not indisvalid) then
        drop index outbox_by_reservation;
      end if;
    end $$`);
  await knex.raw(
    `create index concurrently if not exists outbox_by_reservation on outbox (reservation_id)
     where type <> 'dev.doorbuster.redemption.reserved.v1'`,
  );
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
