import type { Knex } from 'knex';

/**
 * The history of terms: each version of a campaign's terms, written by the statement that makes it. So a change of
 * terms is one row, however many codes and redemptions refer to the campaign, and the older terms still apply to
 * earlier redemptions. The version itself stays in `campaigns`; a trigger keeps the history, so no writer can leave a
 * gap in it.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table campaign_terms (
      campaign_id uuid not null references campaigns,
      version integer not null check (version >= 1),
      name text not null,
      discount jsonb,
      audience jsonb,
      stacking jsonb not null,
      starts_at timestamptz not null,
      ends_at timestamptz,
      time_zone text not null,
      per_user_limit integer not null,
      hold_seconds integer not null,
      refund_policy text not null,
      uniform_refusals boolean not null,
      require_token boolean not null,
      valid_from timestamptz not null default now(),
      primary key (campaign_id, version)
    );
    comment on table campaign_terms is 'append-only; kept by the trigger campaigns_terms';

    create function campaigns_keep_terms() returns trigger language plpgsql as $$
    begin
      insert into campaign_terms (campaign_id, version, name, discount, audience, stacking, starts_at, ends_at, time_zone,
        per_user_limit, hold_seconds, refund_policy, uniform_refusals, require_token, valid_from)
      values (new.campaign_id, new.terms_version, new.name, new.discount, nullif(new.rules -> 'audience', 'null'),
        coalesce(nullif(new.rules -> 'stacking', 'null'), '{"exclusive": false}'), new.starts_at, new.ends_at, new.time_zone,
        new.per_user_limit, new.hold_seconds, new.refund_policy,
        coalesce((new.rules ->> 'uniform_refusals')::boolean, false), coalesce((new.rules ->> 'require_token')::boolean, false),
        new.updated_at);
      return null;
    end $$;
    create trigger campaigns_terms_insert after insert on campaigns
      for each row execute function campaigns_keep_terms();
    create trigger campaigns_terms_update after update of terms_version on campaigns
      for each row when (old.terms_version <> new.terms_version) execute function campaigns_keep_terms();

    insert into campaign_terms (campaign_id, version, name, discount, audience, stacking, starts_at, ends_at, time_zone,
      per_user_limit, hold_seconds, refund_policy, uniform_refusals, require_token, valid_from)
    select campaign_id, terms_version, name, discount, nullif(rules -> 'audience', 'null'),
      coalesce(nullif(rules -> 'stacking', 'null'), '{"exclusive": false}'), starts_at, ends_at, time_zone, per_user_limit, hold_seconds,
      refund_policy, coalesce((rules ->> 'uniform_refusals')::boolean, false),
      coalesce((rules ->> 'require_token')::boolean, false), updated_at
    from campaigns;

    create function campaign_terms_are_append_only() returns trigger language plpgsql as $$
    begin
      raise exception 'campaign_terms is append-only';
    end $$;
    create trigger campaign_terms_append_only before update or delete or truncate on campaign_terms
      for each statement execute function campaign_terms_are_append_only();

    alter table redemptions add column terms_version integer;
    comment on column redemptions.terms_version is 'the terms it was made under; null = made before versions were kept';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
