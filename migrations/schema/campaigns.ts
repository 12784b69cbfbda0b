/** Campaigns, the versions of their terms and prices, and the buckets of divided ones (docs/buckets.md). */
export const CAMPAIGNS = `
  create table campaigns (
    campaign_id uuid primary key,
    no integer generated always as identity unique,
    product_id text not null unique,
    name text not null,
    type text not null check (type in ('shared', 'unique', 'pool')),
    code text,
    total_limit bigint check (total_limit >= 0),
    taken bigint not null default 0 check (taken >= 0),
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
    held bigint not null default 0 check (held >= 0),
    redeemed bigint not null default 0 check (redeemed >= 0),
    burned bigint not null default 0 check (burned >= 0),
    reservations bigint not null default 0 check (reservations >= 0),
    redemptions_dropped_at timestamptz,
    shard smallint,
    buckets smallint not null default 1 check (buckets between 1 and 16),
    hidden_at timestamptz,
    personal_data_cursor text not null default '',
    personal_data_removed_at timestamptz,
    constraint campaigns_cap check (total_limit is null or taken <= total_limit),
    constraint campaigns_no_without_bucket check ((no & 125829120) = 0) not valid,
    constraint campaigns_states check (taken = held + redeemed + burned),
    constraint campaigns_window check (ends_at is null or ends_at > starts_at)
  );
  comment on column campaigns.no is 'stands in every reservation id';
  comment on column campaigns.taken is
    'held + redeemed + burned; kept by the triggers on redemptions, as the other counters';
  comment on column campaigns.rules is 'terms for coupons, risk rules and the sale page, as operators send them';
  comment on column campaigns.held is 'units of rows that are reserved';
  comment on column campaigns.redeemed is 'units of rows that are redeemed';
  comment on column campaigns.burned is 'units of rows that are refunded and whose units do not return';
  comment on column campaigns.reservations is 'rows in redemptions, in every state';
  comment on column campaigns.redemptions_dropped_at is
    'when the rows of its reservations were dropped; the counters stay. null = they are there';
  comment on column campaigns.shard is
    'shard of Redis to which it was moved; null = the one that its product has by SHARDS';
  comment on column campaigns.buckets is 'parts of its stock, each in another shard; 1 = not divided';
  comment on column campaigns.hidden_at is 'when an operator hid it from the list; null = it is listed';
  comment on column campaigns.personal_data_cursor is
    'table and last row whose user was replaced by a pseudonym; empty = none';
  comment on column campaigns.personal_data_removed_at is 'when all users were replaced; null = they are there';

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
    checkout_url text,
    valid_from timestamptz not null default now(),
    primary key (campaign_id, version)
  );
  comment on table campaign_terms is 'append-only; kept by the trigger campaigns_terms';

  create function campaigns_keep_terms() returns trigger language plpgsql as $$
  begin
    insert into campaign_terms (campaign_id, version, name, discount, audience, stacking, starts_at, ends_at, time_zone,
      per_user_limit, hold_seconds, refund_policy, uniform_refusals, require_token, checkout_url, valid_from)
    values (new.campaign_id, new.terms_version, new.name, new.discount, nullif(new.rules -> 'audience', 'null'),
      coalesce(nullif(new.rules -> 'stacking', 'null'), '{"exclusive": false}'), new.starts_at, new.ends_at, new.time_zone,
      new.per_user_limit, new.hold_seconds, new.refund_policy,
      coalesce((new.rules ->> 'uniform_refusals')::boolean, false), coalesce((new.rules ->> 'require_token')::boolean, false),
      new.rules ->> 'checkout_url', new.updated_at);
    return null;
  end $$;
  create trigger campaigns_terms_insert after insert on campaigns
    for each row execute function campaigns_keep_terms();
  create trigger campaigns_terms_update after update of terms_version on campaigns
    for each row when (old.terms_version <> new.terms_version) execute function campaigns_keep_terms();

  create function campaign_terms_are_append_only() returns trigger language plpgsql as $$
  begin
    raise exception 'campaign_terms is append-only';
  end $$;
  create trigger campaign_terms_append_only before update or delete or truncate on campaign_terms
    for each statement execute function campaign_terms_are_append_only();

  create table campaign_prices (
    campaign_id uuid not null references campaigns on delete cascade,
    since timestamptz not null,
    amount numeric,
    currency text,
    primary key (campaign_id, since),
    check ((amount is null) = (currency is null))
  );
  comment on table campaign_prices is
    'what a unit cost on the sale page (branding.price); kept by triggers on campaigns';
  comment on column campaign_prices.amount is 'in minor units of the currency; null = from then on without a price';

  create function campaigns_keep_prices() returns trigger language plpgsql as $$
  declare brand jsonb := new.rules -> 'branding';
  begin
    insert into campaign_prices (campaign_id, since, amount, currency)
    values (new.campaign_id, case when tg_op = 'INSERT' then '-infinity' else now() end,
      (brand ->> 'price')::numeric, brand ->> 'currency')
    on conflict (campaign_id, since) do update set amount = excluded.amount, currency = excluded.currency;
    return null;
  end $$;
  create trigger campaigns_prices_insert after insert on campaigns
    for each row when (new.rules #> '{branding,price}' is not null) execute function campaigns_keep_prices();
  create trigger campaigns_prices_update after update of rules on campaigns
    for each row when (new.rules #> '{branding,price}' is distinct from old.rules #> '{branding,price}'
      or new.rules #> '{branding,currency}' is distinct from old.rules #> '{branding,currency}')
    execute function campaigns_keep_prices();

  create function campaigns_keep_redemptions() returns trigger language plpgsql as $$
  begin
    if tg_op = 'TRUNCATE' then
      raise exception 'campaigns cannot be truncated: redemptions name them'
        using errcode = 'foreign_key_violation', constraint = 'redemptions_campaign_id_fkey', table = 'campaigns';
    end if;
    if old.reservations > 0 then
      raise exception 'a campaign that has redemptions keeps its row and its id'
        using errcode = 'foreign_key_violation', constraint = 'redemptions_campaign_id_fkey', table = 'campaigns';
    end if;
    return case when tg_op = 'DELETE' then old else new end;
  end $$;
  create trigger campaigns_keep_redemptions_delete before delete on campaigns
    for each row execute function campaigns_keep_redemptions();
  create trigger campaigns_keep_redemptions_rename before update of campaign_id on campaigns
    for each row when (old.campaign_id <> new.campaign_id) execute function campaigns_keep_redemptions();
  create trigger campaigns_keep_redemptions_truncate before truncate on campaigns
    for each statement execute function campaigns_keep_redemptions();

  create table campaign_buckets (
    campaign_id uuid not null references campaigns on delete cascade,
    bucket smallint not null check (bucket between 0 and 15),
    total bigint check (total >= 0),
    held bigint not null default 0 check (held >= 0),
    redeemed bigint not null default 0 check (redeemed >= 0),
    burned bigint not null default 0 check (burned >= 0),
    reservations bigint not null default 0 check (reservations >= 0),
    sealed_at timestamptz,
    primary key (campaign_id, bucket),
    constraint campaign_buckets_cap check (total is null or held + redeemed + burned <= total)
  );
  comment on table campaign_buckets is 'the parts of campaigns with several buckets';
  comment on column campaign_buckets.total is 'units that the bucket has; null = unlimited';
  comment on column campaign_buckets.held is
    'kept by the triggers on redemptions, as redeemed, burned and reservations';
  comment on column campaign_buckets.sealed_at is 'since when its units go to users in line only';

  create table stock_transfers (
    campaign_id uuid not null references campaigns on delete cascade,
    from_bucket smallint not null,
    out_no bigint not null,
    to_bucket smallint not null,
    units bigint not null,
    moved_out_at timestamptz not null,
    moved_in_at timestamptz,
    codes integer[],
    primary key (campaign_id, from_bucket, out_no),
    constraint stock_transfers_campaign_id_from_bucket_fkey foreign key (campaign_id, from_bucket)
      references campaign_buckets (campaign_id, bucket) on delete cascade,
    constraint stock_transfers_campaign_id_to_bucket_fkey foreign key (campaign_id, to_bucket)
      references campaign_buckets (campaign_id, bucket) on delete cascade,
    check (from_bucket <> to_bucket),
    constraint stock_transfers_something check (units >= 0 and (units > 0 or coalesce(cardinality(codes), 0) > 0))
  );
  comment on table stock_transfers is
    'units and codes that moved from one bucket to another; without moved_in_at they are on their way';
  comment on column stock_transfers.out_no is 'number of the transfer in the bucket that gave the units';
  comment on column stock_transfers.codes is 'numbers of the codes that moved (codes.code_no); null = none';
  create index stock_transfers_in_transit on stock_transfers (campaign_id, out_no) where moved_in_at is null;
  create index stock_transfers_with_codes on stock_transfers (campaign_id, to_bucket) where codes is not null;

  -- At the commit, because a transfer or a restock changes several rows.
  create function campaign_buckets_conserve() returns trigger language plpgsql as $$
  declare expected bigint; found bigint;
  begin
    select total_limit into expected from campaigns where campaign_id = new.campaign_id and buckets > 1;
    if expected is null then
      return null;
    end if;
    select (select coalesce(sum(total), 0) from campaign_buckets where campaign_id = new.campaign_id)
      + (select coalesce(sum(units), 0) from stock_transfers where campaign_id = new.campaign_id and moved_in_at is null)
      into found;
    if found <> expected then
      raise exception 'the buckets of the campaign have % units, the campaign has %', found, expected
        using errcode = 'check_violation', constraint = 'campaign_buckets_conserved', table = 'campaign_buckets';
    end if;
    return null;
  end $$;
  create constraint trigger campaign_buckets_conserved after insert or update of total on campaign_buckets
    deferrable initially deferred for each row execute function campaign_buckets_conserve();
  create constraint trigger stock_transfers_conserved after insert or update of moved_in_at, units on stock_transfers
    deferrable initially deferred for each row execute function campaign_buckets_conserve();
  create constraint trigger campaigns_conserved after insert or update of total_limit on campaigns
    deferrable initially deferred for each row when (new.buckets > 1) execute function campaign_buckets_conserve();
`;
