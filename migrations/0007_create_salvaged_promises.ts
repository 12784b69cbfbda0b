import type { Knex } from 'knex';

/** Promises that API processes still had in memory when Redis lost its data; empty at all other times. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table salvaged_promises (
      salvage_id bigint generated always as identity primary key,
      journal_id text not null,
      promise jsonb not null,
      written_at timestamptz not null default now()
    );
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
