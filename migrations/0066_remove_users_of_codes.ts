import type { Knex } from 'knex';

/** Campaigns whose users were removed before codes were looked at are looked at again (PERSONAL_DATA_KEEP_DAYS). */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    update campaigns c set personal_data_removed_at = null, personal_data_cursor = 'codes'
    where personal_data_removed_at is not null
      and exists (select 1 from codes where campaign_id = c.campaign_id and user_id is not null)
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
