import type { Knex } from 'knex';

/**
 * How far the journal of each incarnation of Redis has been written here: moved by the transaction that wrote it, so an
 * entry takes effect once whoever repeats what. And what could not be written at all, so that it is never lost unseen.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table journal_cursors (
      epoch text primary key,
      last_id text not null,
      updated_at timestamptz not null default now()
    );
    create table journal_rejects (
      epoch text not null,
      journal_id text not null,
      fields jsonb not null,
      reason text not null,
      rejected_at timestamptz not null default now(),
      primary key (epoch, journal_id)
    );
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
