/** Operators, their keys and sessions, their actions, bans and erasures. */
export const OPERATORS = `
  create table api_keys (
    key_id uuid primary key,
    name text not null unique,
    kind text not null check (kind in ('service', 'admin')),
    role text check (role in ('viewer', 'support', 'marketer', 'admin')),
    digest bytea not null unique check (octet_length(digest) = 32),
    created_at timestamptz not null default now(),
    created_by text not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    last_used_at timestamptz,
    check ((kind = 'admin') = (role is not null))
  );
  comment on column api_keys.last_used_at is 'accurate to about a minute';
  create index api_keys_in_force on api_keys (key_id) where revoked_at is null;

  create table operators (
    operator_id uuid primary key,
    name text not null unique,
    issuer text not null,
    subject text not null,
    created_at timestamptz not null default now(),
    last_login_at timestamptz not null default now(),
    unique (issuer, subject)
  );

  create table operator_sessions (
    session_id uuid primary key,
    operator_id uuid not null references operators on delete cascade,
    digest bytea not null unique check (octet_length(digest) = 32),
    role text not null check (role in ('viewer', 'support', 'marketer', 'admin')),
    created_at timestamptz not null default now(),
    last_seen_at timestamptz not null default now(),
    expires_at timestamptz not null,
    ended_at timestamptz,
    ended_by text
  );
  comment on column operator_sessions.last_seen_at is 'accurate to about a minute';
  create index operator_sessions_by_end on operator_sessions (expires_at);

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
  create index audit_log_by_actor on audit_log (actor, audit_id);
  create index audit_log_by_ban on audit_log ((coalesce(after, before) ->> 'subject'))
    where coalesce(after, before) ->> 'kind' = 'user';
  create index audit_log_by_campaign on audit_log (campaign_id, audit_id);
  create index audit_log_by_user on audit_log ((after ->> 'user_id'), audit_id) where after \\? 'user_id';
  create function audit_log_is_append_only() returns trigger language plpgsql as $$
  begin
    if tg_op = 'UPDATE' and current_setting('doorbuster.erases_user', true) = 'yes' then
      return null;
    end if;
    if tg_op = 'DELETE' and current_setting('doorbuster.removes_expired', true) = 'yes' then
      return null;
    end if;
    raise exception 'audit_log is append-only';
  end $$;
  create trigger audit_log_append_only before update or delete or truncate on audit_log
    for each statement execute function audit_log_is_append_only();

  create table bans (
    ban_id uuid primary key,
    effect text not null check (effect in ('ban', 'allow')),
    kind text not null check (kind in ('user', 'device', 'network')),
    subject text not null,
    until timestamptz,
    reason text not null,
    actor text not null,
    created_at timestamptz not null default now(),
    lifted_at timestamptz,
    lifted_by text,
    changed_at timestamptz not null default now(),
    check ((lifted_at is null) = (lifted_by is null))
  );
  comment on column bans.subject is 'of a network: IPv4 address, IPv6 /64 or a range, in one notation';
  comment on column bans.until is 'null = until it is lifted';
  comment on column bans.actor is 'an operator, or the rule that did it';
  create index bans_by_change on bans (changed_at);
  create index bans_by_subject on bans (kind, subject);
  create index bans_in_force on bans (until) where lifted_at is null;
  create index bans_of_rules_by_end on bans (until) where actor like 'rule:%';

  create table erasures (
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
`;
