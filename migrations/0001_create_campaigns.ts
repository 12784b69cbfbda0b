import type { Knex } from 'knex';

/** Campaigns: terms, status, and the cap that no writer can exceed (`taken` is kept by a trigger on redemptions). */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table campaigns (
      campaign_id uuid primary key,
      no integer generated always as identity unique,
      product_id text not null unique,
      name text not null,
      type text not null check (type in ('shared', 'unique', 'pool')),
      code text,
      total_limit integer check (total_limit >= 0),
      taken integer not null default 0 check (taken >= 0),
      per_user_limit integer not null check (per_user_limit >= 1),
      max_qty integer not null check (max_qty >= 1),
      starts_at timestamptz not null,
      ends_at timestamptz,
      time_zone text not null,
      discount jsonb,
      hold_seconds integer not null check (hold_seconds >= 0),
      waiting_room jsonb not null,
      confirmation text not null check (confirmation in ('fast', 'durable')),
      late_payment text not null check (late_payment in ('refuse', 'reacquire')),
      refund_policy text not null check (refund_policy in ('return', 'burn')),
      require_attestation boolean not null,
      rules jsonb not null,
      status text not null check (status in ('draft', 'scheduled', 'open', 'paused', 'closed')),
      terms_version integer not null default 1,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      constraint campaigns_cap check (total_limit is null or taken <= total_limit),
      constraint campaigns_window check (ends_at is null or ends_at > starts_at)
    );
    comment on column campaigns.no is 'stands in every reservation id';
    comment on column campaigns.taken is 'units held, redeemed or burned; kept by the trigger redemptions_taken';
    comment on column campaigns.rules is 'terms that this version stores for coupons and risk rules';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
