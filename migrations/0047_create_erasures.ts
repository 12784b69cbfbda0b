import type { Knex } from 'knex';

/** Its indexes are built without holding up writers, which no transaction can. An interrupted run can be repeated. */
export const config = { transaction: false };

/**
 * Erasures of users: a pseudonym replaces the id of a user in every table (decision 56). The id is in `erasures` only
 * while an erasure runs. The audit log stays append-only, except in a transaction that says that it erases a user.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table if not exists erasures (
      erasure_id uuid primary key,
      user_id text unique,
      pseudonym text not null unique,
      actor text not null,
      requested_at timestamptz not null default now(),
      finished_at timestamptz,
      rows jsonb not null default '{}',
      check ((user_id is null) = (finished_at is not null))
    );
    comment on column erasures.user_id is 'null = the erasure is finished';
    comment on column erasures.rows is 'table → rows that were changed or deleted';

    create or replace function audit_log_is_append_only() returns trigger language plpgsql as $$
    begin
      if tg_op = 'UPDATE' and current_setting('doorbuster.erases_user', true) = 'yes' then
        return null;
      end if;
      if tg_op = 'DELETE' and current_setting('doorbuster.removes_expired', true) = 'yes' then
        return null;
      end if;
      raise exception 'audit_log is append-only';
    end $$;
  `);
  await build(knex, 'codes_by_user', 'codes (user_id) where user_id is not null');
  // Only events of campaigns, and those of earlier versions, have their data in the row.
  await build(knex, 'outbox_with_data', 'outbox (seq) where data is not null');
  await build(
    knex,
    'audit_log_by_ban',
    `audit_log ((coalesce(after, before) ->> 'subject')) where coalesce(after, before) ->> 'kind' = 'user'`,
  );
}

async function build(knex: Knex, name: string, on: string): Promise<void> {
  // What an interrupted build leaves is invalid.
  await knex.raw(`
    do $$ begin
      if exists (select 1 from pg_index where indexrelid = to_regclass('${name}') and not indisvalid) then
        drop index ${name};
      end if;
    end $$`);
  await knex.raw(`create index concurrently if not exists ${name} on ${on}`);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
