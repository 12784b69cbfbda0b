import type { Knex } from 'knex';

/** The mark of archived campaigns of which Postgres has lost records. Redis has it too, and may lose its data. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table campaigns add column records_lost_at timestamptz;
    comment on column campaigns.records_lost_at is
      'when a repair found that records of the archived campaign are lost; null = none, or an operator has decided'`);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
