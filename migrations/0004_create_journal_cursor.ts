import type { Knex } from 'knex';

/**
 * The position up to which the journal has been written to Postgres. The transaction that writes advances it, so an
 * entry takes effect once, whatever is repeated. Journal ids only grow, also from one instance of Redis to the next.
 * The second table has the entries that could not be written, so that none is lost silently.
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
