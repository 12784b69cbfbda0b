import type { Knex } from 'knex';

/**
 * The code of a redemption or of a waiting user. A code is used once: the schema refuses a second use by any writer.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table redemptions add column code_no integer check (code_no >= 1);
    alter table waiting_tickets add column code_no integer check (code_no >= 1);
    comment on column redemptions.code_no is 'of codes.code_no; null = by no code of its own';
    create unique index redemptions_one_per_code on redemptions (campaign_id, code_no)
      where code_no is not null and (status in ('reserved', 'redeemed') or burned);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
