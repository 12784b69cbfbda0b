import type { Knex } from 'knex';

/**
 * Ends the places whose promotion was voided before this version: Redis has promoted these users, so a rebuild must not
 * put them into the line again.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    update waiting_tickets t set status = 'promoted', ended_at = r.reserved_at from redemptions r
    where t.status = 'waiting' and r.campaign_id = t.campaign_id and r.redemption_id = t.reservation_id
      and r.status = 'voided'`);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
