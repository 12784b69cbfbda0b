import type { Knex } from 'knex';

/**
 * Idempotency records that are in no other row: those of restocks, and of users who waited already. A Redis that lost
 * its data gets them back from here.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table remembered_answers (
      idempotency_key text primary key,
      campaign_id uuid not null references campaigns,
      answer text not null,
      made_at timestamptz not null
    );
    create index remembered_answers_by_campaign on remembered_answers (campaign_id, idempotency_key);
    create index remembered_answers_by_time on remembered_answers (made_at);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
