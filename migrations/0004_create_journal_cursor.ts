import type { Knex } from 'knex';

/**
 * How far the journal has been written here: moved by the transaction that wrote it, so an entry takes effect once whoever
 * repeats what. Journal ids only grow, also from one incarnation of Redis to the next (worker/rebuild). And what could not
 * be written at all, so that it is never lost unseen.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table journal_cursor (
      only_row boolean primary key default true check (only_row),
      last_id text not null,
      updated_at timestamptz not null default now()
    );
    insert into journal_cursor (last_id) values ('0-0');
    create table journal_rejects (
      journal_id text primary key,
      fields jsonb not null,
      reason text not null,
      rejected_at timestamptz not null default now()
    );
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
