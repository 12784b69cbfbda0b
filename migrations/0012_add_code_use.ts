import type { Knex } from 'knex';

/** Which code a redemption used, or somebody waits with. A code is used once: whoever writes a second use is refused. */
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
