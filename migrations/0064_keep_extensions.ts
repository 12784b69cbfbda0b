import type { Knex } from 'knex';

/**
 * Whether the deadline of a reservation was extended, so that Redis knows it again after it has lost its data.
 * Reservations that were extended before this version do not have it.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
    alter table redemptions add column extended boolean not null default false;
    comment on column redemptions.extended is 'whether the deadline (pay_before) was extended';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
