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
    request_id text,
    chain text not null default 'operator',
    chain_no bigint not null check (chain_no >= 1),
    people bytea,
    link bytea not null,
    unique (chain, chain_no),
    check (isfinite(at)),
    check (coalesce(jsonb_typeof(before), 'object') = 'object' and coalesce(jsonb_typeof(after), 'object') = 'object'),
    constraint audit_log_chain_of_campaign
      check (chain in ('operator:' || coalesce(campaign_id::text, 'service'), 'journal:' || coalesce(campaign_id::text, 'service')))
  );
  comment on column audit_log.chain is
    'operator or journal, who wrote it, and the campaign: so nothing that an operator does waits for the journal';
  comment on column audit_log.chain_no is '1 = the first of its chain';
  comment on column audit_log.people is 'digest of what says whom the entry is about, and of its reason; null = about no one';
  comment on column audit_log.link is 'digest of the entry and of the link before it';
  create table audit_chains (
    chain text primary key,
    entries bigint not null,
    head bytea not null
  );
  comment on table audit_chains is 'the last entry of each chain; its row is locked until the entry is committed';
  create table audit_people (audit_id bigint primary key, salt bytea not null);
  comment on table audit_people is 'An erasure deletes the salt: then the digest says nothing about the person any more.';

  create function audit_people_of(entry jsonb) returns jsonb language sql immutable as $$
    select case when entry \\? 'user_id' or entry ->> 'kind' in ('user', 'device', 'network') then jsonb_build_array(
      entry -> 'user_id', case when entry ->> 'kind' in ('user', 'device', 'network') then entry -> 'subject' end,
      entry -> 'reason') end
  $$;
  create function audit_rest_of(entry jsonb) returns jsonb language sql immutable as $$
    select case when audit_people_of(entry) is null then entry else entry - 'user_id' - 'reason'
      - case when entry ->> 'kind' in ('user', 'device', 'network') then 'subject' else '' end end
  $$;
  create function audit_text(entry audit_log) returns text language sql stable as $$
    select jsonb_build_array(entry.chain, entry.chain_no, entry.audit_id, (extract(epoch from entry.at) * 1000000)::bigint,
      entry.actor, entry.action, entry.campaign_id, audit_rest_of(entry.before), audit_rest_of(entry.after), entry.request_id,
      encode(entry.people, 'hex'))::text
  $$;
  create function link_audit_entry() returns trigger language plpgsql as $$
  declare
    people jsonb := jsonb_build_array(audit_people_of(new.before), audit_people_of(new.after));
    salt bytea;
    previous bytea;
    last audit_log;
  begin
    new.chain := new.chain || ':' || coalesce(new.campaign_id::text, 'service');
    if people <> '[null, null]' then
      salt := uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
      insert into audit_people (audit_id, salt) values (new.audit_id, salt);
      new.people := sha256(salt || convert_to(people::text, 'UTF8'));
    end if;
    update audit_chains set entries = entries + 1 where chain = new.chain returning entries, head into new.chain_no, previous;
    if not found then
      select * from audit_log where chain = new.chain order by chain_no desc limit 1 into last;
      insert into audit_chains as c (chain, entries, head)
        values (new.chain, coalesce(last.chain_no, 0) + 1, coalesce(last.link, ''))
        on conflict (chain) do update set entries = c.entries + 1 returning c.entries, c.head into new.chain_no, previous;
    end if;
    new.link := sha256(previous || convert_to(audit_text(new), 'UTF8'));
    update audit_chains set head = new.link where chain = new.chain;
    return new;
  end $$;
  create trigger audit_log_chain before insert on audit_log for each row execute function link_audit_entry();
  create index audit_log_by_actor on audit_log (actor, audit_id);
  create index audit_log_by_ban on audit_log ((coalesce(after, before) ->> 'subject'))
    where coalesce(after, before) ->> 'kind' = 'user';
  create index audit_log_by_campaign on audit_log (campaign_id, audit_id);
  create index audit_log_by_restock on audit_log (request_id) where action = 'campaign.restock';
  create index audit_log_by_reservation on audit_log ((after ->> 'reservation_id')) where after \\? 'reservation_id';
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
    in_open_campaigns boolean not null default false,
    requested_at timestamptz not null default now(),
    next_look_at timestamptz not null default now(),
    finished_at timestamptz,
    rows jsonb not null default '{}',
    check ((user_id is null) = (finished_at is not null))
  );
  create index erasures_by_next_look on erasures (next_look_at) where user_id is not null;
  comment on column erasures.user_id is 'null = the erasure is finished';
  comment on column erasures.in_open_campaigns is 'false = it waits until the campaigns of which the user has a unit are closed';
  comment on column erasures.next_look_at is 'when a worker looks at it again';
  comment on column erasures.rows is 'table → rows that were changed or deleted';
`;
