import type { Knex } from 'knex';

/** Campaigns that the operator's list does not show unless it is asked for them. Nothing else depends on it. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
    alter table campaigns add column hidden_at timestamptz;
    comment on column campaigns.hidden_at is 'when an operator hid it from the list; null = it is listed';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
