import type { Knex } from 'knex';

/** How far the removal of personal data of a closed campaign has come (`PERSONAL_DATA_KEEP_DAYS`). */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
    alter table campaigns add column personal_data_cursor text not null default '';
    alter table campaigns add column personal_data_removed_at timestamptz;
    comment on column campaigns.personal_data_cursor is 'table and last row whose user was replaced by a pseudonym; empty = none';
    comment on column campaigns.personal_data_removed_at is 'when all users were replaced; null = they are there';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
