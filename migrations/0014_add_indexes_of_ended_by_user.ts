import type { Knex } from 'knex';

/**
 * Finds the rows of one returning user in a closed campaign. Rows that take units are found by
 * redemptions_one_per_allowance. These indexes are for the others, so a new reservation or ticket costs nothing more.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create index redemptions_ended_by_user on redemptions (campaign_id, user_id)
      where status not in ('reserved', 'redeemed') and not burned;
    create index waiting_tickets_ended_by_user on waiting_tickets (campaign_id, user_id) where status <> 'waiting';
    create index remembered_answers_by_user on remembered_answers (campaign_id, split_part(answer, '|', 3));
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
