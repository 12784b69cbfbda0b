import type { Knex } from 'knex';

/** A notification may be about the end of one place: an operator or the service ended it, and the line goes on. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table push_subscriptions drop constraint push_subscriptions_message_check,
      add constraint push_subscriptions_message_check
        check (message in ('promoted', 'line_closed', 'campaign_closed', 'place_ended'))`);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
