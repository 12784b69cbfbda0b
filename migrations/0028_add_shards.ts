import type { Knex } from 'knex';

/**
 * The journal, its histories and its cursor for each shard of Redis (decision 41). What exists belongs to shard 0. The
 * generations of all shards differ (generation mod 64 = shard), so a journal id names its entry in any shard, and
 * tables with journal ids need no more. Processes of the version before read and write shard 0 alone, as before.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
    alter table journal_cursor add column shard smallint not null default 0 check (shard between 0 and 63);
    alter table journal_cursor drop constraint journal_cursor_pkey;
    alter table journal_cursor drop column only_row;
    alter table journal_cursor add primary key (shard);

    alter table journal_histories add column shard smallint not null default 0;
    create index journal_histories_by_shard on journal_histories (shard, generation);

    alter table journal_processes add column shard smallint not null default 0;
    comment on column journal_processes.process_id is 'process, with "/" and the shard except for shard 0';

    alter table recovered_entries add column shard smallint not null default 0;
    drop index recovered_entries_pending;
    create index recovered_entries_pending on recovered_entries (shard, generation, number) where applied_at is null;

    create table installation (
      only_row boolean primary key default true check (only_row),
      shards smallint not null default 1 check (shards between 1 and 64),
      map_version bigint not null default 0,
      left_shards smallint
    );
    insert into installation default values;
    comment on table installation is 'what all processes must agree on';
    comment on column installation.shards is 'SHARDS; npm run reshard changes it';
    comment on column installation.left_shards is 'the number before, until its campaigns have been removed from Redis';
    comment on column installation.map_version is 'grows whenever a campaign moves to another shard';
    alter table journal_processes add column map_version bigint not null default 0;
    comment on column journal_processes.map_version is 'of the campaigns that moved, as the process knows them';

    alter table campaigns add column shard smallint;
    comment on column campaigns.shard is 'shard of Redis to which it was moved; null = the one that its product has by SHARDS';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
