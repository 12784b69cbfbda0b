import type { Knex } from 'knex';

/**
 * Workers report whether they can read journal entries with several promises. Until all of them can, the API writes one
 * promise an entry, so that workers of an earlier version can run beside it.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table journal_processes add column reads_packed boolean not null default false;
    comment on column journal_processes.reads_packed is 'whether it can read journal entries with several promises';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
