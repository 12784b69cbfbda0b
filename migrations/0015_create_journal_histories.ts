import type { Knex } from 'knex';

/**
 * Histories: the entries that one lineage of Redis wrote. A new one begins whenever Redis was restarted, failed over,
 * restored or refilled, and has the last entry that it contains of the ones before it. Processes agree on that by
 * `journal_processes`: each reports the generation for which it has saved the entries that the history lacks.
 * `recovered_entries` has those entries.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table journal_histories (
      generation bigint primary key,
      server text not null,
      after_id text not null,
      reason text not null,
      begun_at timestamptz not null default now(),
      opened_at timestamptz
    );
    comment on column journal_histories.server is 'master_replid of the Redis server that was verified';
    comment on column journal_histories.after_id is 'last journal entry of earlier histories that this one contains';
    comment on column journal_histories.opened_at is 'when it went into service; null while it is being recovered';

    create unlogged table journal_processes (
      process_id text primary key,
      kind text not null check (kind in ('api', 'worker')),
      seen_at timestamptz not null,
      generation bigint not null,
      unsaved integer not null,
      serving bigint
    );
    comment on column journal_processes.generation is 'latest history for which it has saved what that history lacks';
    comment on column journal_processes.unsaved is 'entries that it still has to save';
    comment on column journal_processes.serving is 'history of the Redis that it uses now; null while it uses none';

    create table recovered_entries (
      journal_id text primary key,
      generation bigint not null,
      number bigint not null,
      fields jsonb not null,
      process_id text not null,
      recovered_at timestamptz not null default now(),
      applied_at timestamptz
    );
    comment on table recovered_entries is 'journal entries that Redis lost, saved by the processes that acknowledged them';
    create index recovered_entries_pending on recovered_entries (generation, number) where applied_at is null;
    drop table salvaged_promises;
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
