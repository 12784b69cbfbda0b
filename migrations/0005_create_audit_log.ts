import type { Knex } from 'knex';

/** Every operator action: actor, action, state before and after. Append-only for every writer. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table audit_log (
      audit_id bigint generated always as identity primary key,
      at timestamptz not null,
      actor text not null,
      action text not null,
      campaign_id uuid references campaigns,
      before jsonb,
      after jsonb,
      request_id text
    );
    create index audit_log_by_campaign on audit_log (campaign_id, audit_id);
    create function audit_log_is_append_only() returns trigger language plpgsql as $$
    begin
      raise exception 'audit_log is append-only';
    end $$;
    create trigger audit_log_append_only before update or delete or truncate on audit_log
      for each statement execute function audit_log_is_append_only();
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
