import type { Knex } from 'knex';

/** The histories of Redis that this installation knows: one row for each generation of the epoch. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table journal_histories (generation bigint primary key, server text not null, after_id text not null, reason text not null, begun_at timestamptz not null default now(), opened_at timestamptz);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
