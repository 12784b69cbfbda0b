/** Units of rows by their state, as a trigger on `redemptions` counts them. @param units expression of a row's units */
const unitsByState = (units: string, rows: string) =>
  `coalesce(sum(${units}) filter (where status = 'reserved'), 0) as held,
              coalesce(sum(${units}) filter (where status = 'redeemed'), 0) as redeemed,
              coalesce(sum(${units}) filter (where burned), 0) + sum(burned_qty) as burned, ${rows} as made`;
const HAS_CHANGED = 'held <> 0 or redeemed <> 0 or burned <> 0 or made <> 0';

/**
 * Statements that add to the counters of the campaigns, and of their buckets if they are divided.
 * @param byCampaign a query with the counts of each campaign
 * @param byBucket the same for each bucket
 */
const count = (sign: '+' | '-', byCampaign: string, byBucket: string) => `
        with d as (${byCampaign}
        ), counted as (
          update campaigns c set taken = c.taken ${sign} d.held ${sign} d.redeemed ${sign} d.burned,
            held = c.held ${sign} d.held, redeemed = c.redeemed ${sign} d.redeemed, burned = c.burned ${sign} d.burned,
            reservations = c.reservations ${sign} d.made
          from d where c.campaign_id = d.campaign_id returning c.buckets
        ) select (select count(*) from d) - count(*), max(buckets) from counted into missing, most;
        if most > 1 then
          update campaign_buckets b set held = b.held ${sign} d.held, redeemed = b.redeemed ${sign} d.redeemed,
            burned = b.burned ${sign} d.burned, reservations = b.reservations ${sign} d.made
          from (${byBucket}
          ) d where b.campaign_id = d.campaign_id and b.bucket = d.bucket;
        end if;`;
/** Counts the rows that a statement has inserted or deleted. */
const countAll = (sign: '+' | '-', rows: string) =>
  count(
    sign,
    `
          select campaign_id, ${unitsByState('qty', 'count(*)')} from ${rows} group by campaign_id`,
    `
            select campaign_id, redemption_bucket(redemption_id) as bucket,
              ${unitsByState('qty', 'count(*)')} from ${rows} group by 1, 2`,
  );

/**
 * Counts units by their state, and refuses an allowance that the user does not have and a campaign that does not exist.
 * Reads the limit of a campaign once a statement: a look-up for each row was half of what an insert cost, and a foreign
 * key was a quarter.
 */
const COUNT_TAKEN = `
  create function redemptions_count_taken() returns trigger language plpgsql as $$
  declare missing bigint := 0; most smallint := 1;
  begin
    if tg_op in ('INSERT', 'UPDATE') then
      if exists (
        select 1 from (
          select campaign_id, max(slot) as slot from new_rows where status in ('reserved', 'redeemed') or burned
          group by campaign_id
        ) n join campaigns c using (campaign_id) where n.slot > c.per_user_limit
      ) then
        raise exception 'the user has no such allowance'
          using errcode = 'check_violation', constraint = 'redemptions_within_limit', table = 'redemptions';
      end if;
    end if;
    if tg_op = 'INSERT' then ${countAll('+', 'new_rows')}
    elsif tg_op = 'DELETE' then ${countAll('-', 'old_rows')}
      missing := 0;
    else ${count(
      '+',
      `
          select * from (
            select campaign_id, ${unitsByState('units', 'sum(rows)')}
            from (
              select campaign_id, status, burned, qty as units, burned_qty, 1 as rows from new_rows
              union all
              select campaign_id, status, burned, -qty, -burned_qty, -1 from old_rows
            ) changed group by campaign_id) sums
          where ${HAS_CHANGED}`,
      `
            select * from (
              select campaign_id, bucket, ${unitsByState('units', 'sum(rows)')}
              from (
                select campaign_id, redemption_bucket(redemption_id) as bucket, status, burned, qty as units, burned_qty, 1 as rows
                from new_rows
                union all
                select campaign_id, redemption_bucket(redemption_id), status, burned, -qty, -burned_qty, -1 from old_rows
              ) changed group by 1, 2) sums
            where ${HAS_CHANGED}`,
    )}
    end if;
    if missing > 0 then
      raise exception 'a redemption names a campaign that does not exist'
        using errcode = 'foreign_key_violation', constraint = 'redemptions_campaign_id_fkey', table = 'redemptions';
    end if;
    return null;
  end $$;
`;

/**
 * Reservations and places in line. A row of `redemptions` takes units and one of its user's allowances while it is
 * reserved, redeemed, or refunded with its unit burned. Guards in the schema hold against every writer: the cap
 * (campaigns_cap, through the trigger), one row for each allowance (redemptions_one_per_allowance), the number of
 * allowances (in the trigger), and the codes that may be on one order. All are in partitions, so that the rows of one
 * campaign can be dropped at once (decision 44).
 */
export const REDEMPTIONS = `
  create function ms(milliseconds bigint) returns timestamptz language sql immutable strict parallel safe
    return to_timestamp(milliseconds / 1000.0);
  comment on function ms is 'time of the journal (milliseconds since 1970) as a timestamp';
  create function redemption_bucket(id uuid) returns smallint language sql immutable parallel safe
    return ((('x' || right(id::text, 8))::bit(32)::int >> 23) & 15);

  create table redemptions (
    redemption_id uuid not null,
    campaign_id uuid not null,
    user_id text not null,
    order_id text not null,
    qty integer not null check (qty >= 1),
    slot integer not null check (slot >= 1),
    status text not null check (status in ('reserved', 'redeemed', 'released', 'expired', 'refunded', 'voided')),
    burned boolean not null default false,
    reacquired boolean not null default false,
    line_no bigint,
    reserved_at timestamptz not null,
    pay_before timestamptz,
    redeemed_at timestamptz,
    released_at timestamptz,
    refunded_at timestamptz,
    reason text,
    payment_ref text,
    device_fp text,
    idempotency_key text,
    idempotency_answer text,
    trace text,
    terms_version integer,
    code_no integer check (code_no >= 1),
    stacking text,
    metadata jsonb,
    released_qty integer not null default 0,
    refunded_qty integer not null default 0,
    burned_qty integer not null default 0,
    reduced_at timestamptz,
    extended boolean not null default false,
    check (not burned or status = 'refunded')
  ) partition by list (campaign_id);
  comment on column redemptions.qty is
    'units that the reservation has, without those that were given back while it kept others';
  comment on column redemptions.slot is 'which of the user''s per_user_limit allowances this row takes';
  comment on column redemptions.line_no is 'line number of the ticket it was promoted from; null = never waited';
  comment on column redemptions.released_at is 'when it was released, expired or voided';
  comment on column redemptions.terms_version is 'the terms it was made under';
  comment on column redemptions.code_no is 'of codes.code_no; null = by no code of its own';
  comment on column redemptions.stacking is
    'how it takes part in its order: combines, exclusive, group:<name>; null = it takes no part';
  comment on column redemptions.metadata is 'flat object of texts that the caller sent with the claim; null = none';
  comment on column redemptions.released_qty is 'units that were given back before the payment, while it kept others';
  comment on column redemptions.refunded_qty is 'units that were refunded while it kept others';
  comment on column redemptions.burned_qty is 'units of refunded_qty that are not sold again';
  comment on column redemptions.reduced_at is 'when units were last given back while it kept others';
  comment on column redemptions.extended is 'whether the deadline (pay_before) was extended';

  create table redemptions_shared (like redemptions including defaults including constraints including comments,
    constraint redemptions_pkey primary key (redemption_id));
  create index redemptions_by_order on redemptions_shared (user_id, order_id)
    where stacking is not null and status in ('reserved', 'redeemed');
  create index redemptions_by_order_id on redemptions_shared (order_id)
    where order_id <> 'ord_' || replace(redemption_id::text, '-', '');
  comment on index redemptions_by_order_id is 'rows whose order id a caller has chosen';
  create index redemptions_by_payment_ref on redemptions_shared (payment_ref) where payment_ref is not null;
  create index redemptions_by_time on redemptions_shared using brin (reserved_at) with (pages_per_range = 16);
  create index redemptions_ended_by_code on redemptions_shared (campaign_id, code_no)
    where code_no is not null and status not in ('reserved', 'redeemed') and not burned;
  create index redemptions_ended_by_user on redemptions_shared (campaign_id, user_id)
    where status not in ('reserved', 'redeemed') and not burned;
  create index redemptions_by_promise on redemptions_shared (campaign_id, reserved_at, redemption_id);
  create unique index redemptions_once_by_campaign on redemptions_shared (campaign_id, redemption_id);
  comment on index redemptions_once_by_campaign is 'what the unique index of all partitions consists of';
  create unique index redemptions_one_per_allowance on redemptions_shared (campaign_id, user_id, slot)
    where status in ('reserved', 'redeemed') or burned;
  create unique index redemptions_one_per_code on redemptions_shared (campaign_id, code_no)
    where code_no is not null and (status in ('reserved', 'redeemed') or burned);
  create unique index redemptions_one_per_order on redemptions_shared (user_id, order_id, stacking)
    where stacking <> 'combines' and status in ('reserved', 'redeemed');
  alter table redemptions attach partition redemptions_shared default;
  create unique index redemptions_of_all on redemptions (campaign_id, redemption_id);

  ${COUNT_TAKEN}
  create function redemptions_check_orders() returns trigger language plpgsql as $$
  declare same boolean;
  begin
    if not exists (select 1 from new_rows where stacking is not null) then
      return null;
    end if;
    select n.stacking = r.stacking into same from new_rows n
      join redemptions r on r.user_id = n.user_id and r.order_id = n.order_id and r.redemption_id <> n.redemption_id
      where n.stacking is not null and n.status in ('reserved', 'redeemed')
        and r.stacking is not null and r.status in ('reserved', 'redeemed')
        and ('exclusive' in (n.stacking, r.stacking) or (n.stacking = r.stacking and n.stacking <> 'combines'))
      limit 1;
    if same then
      raise exception 'the order has such a code already'
        using errcode = 'unique_violation', constraint = 'redemptions_one_per_order', table = 'redemptions';
    elsif same is not null then
      raise exception 'the order has a code that excludes this one'
        using errcode = 'check_violation', constraint = 'redemptions_combinable', table = 'redemptions';
    end if;
    return null;
  end $$;

  create function redemptions_add_triggers(target regclass) returns void language plpgsql as $$
  begin
    execute format('create trigger redemptions_taken_insert after insert on %s
      referencing new table as new_rows for each statement execute function redemptions_count_taken()', target);
    execute format('create trigger redemptions_taken_update after update on %s
      referencing old table as old_rows new table as new_rows for each statement execute function redemptions_count_taken()', target);
    execute format('create trigger redemptions_taken_delete after delete on %s
      referencing old table as old_rows for each statement execute function redemptions_count_taken()', target);
    execute format('create trigger redemptions_orders_insert after insert on %s
      referencing new table as new_rows for each statement execute function redemptions_check_orders()', target);
    execute format('create trigger redemptions_orders_update after update on %s
      referencing new table as new_rows for each statement execute function redemptions_check_orders()', target);
    -- Triggers run in the order of their names: these after redemptions_taken, which refuses rows without a campaign.
    execute format('create trigger redemptions_timeline_insert after insert on %s
      referencing new table as new_rows for each statement execute function redemptions_count_minutes()', target);
    execute format('create trigger redemptions_timeline_update after update on %s
      referencing old table as old_rows new table as new_rows for each statement execute function redemptions_count_minutes()', target);
    execute format('create trigger redemptions_timeline_delete after delete on %s
      referencing old table as old_rows for each statement execute function redemptions_count_minutes()', target);
  end $$;

  create function redemptions_add_partition(campaign uuid) returns void language plpgsql as $$
  declare
    part text := (select 'redemptions_c' || no from campaigns where campaign_id = campaign);
    index_definition text;
  begin
    execute format('create table %I (like redemptions including defaults including constraints including comments)', part);
    for index_definition in
      select pg_get_indexdef(indexrelid) from pg_index where indrelid = 'redemptions_shared'::regclass
    loop
      execute regexp_replace(regexp_replace(index_definition, 'INDEX redemptions_', 'INDEX ' || part || '_'),
        'redemptions_shared', part);
    end loop;
    perform redemptions_add_triggers(part::regclass);
    execute format('alter table redemptions attach partition %I for values in (%L)', part, campaign);
  end $$;
  comment on function redemptions_add_partition is 'makes the partition redemptions_c<no> of a campaign without rows';

  create table waiting_tickets (
    campaign_id uuid not null references campaigns,
    line_no bigint not null,
    user_id text not null,
    qty integer not null check (qty >= 1),
    status text not null check (status in ('waiting', 'promoted', 'left', 'closed')),
    reservation_id uuid not null,
    order_id text,
    joined_at timestamptz not null,
    ended_at timestamptz,
    device_fp text,
    idempotency_key text,
    idempotency_answer text,
    trace text,
    code_no integer check (code_no >= 1),
    stacking text,
    metadata jsonb,
    primary key (campaign_id, line_no)
  );
  comment on column waiting_tickets.reservation_id is 'made at checkout, used when the ticket is promoted';
  comment on column waiting_tickets.stacking is 'how the reservation will take part in its order';
  comment on column waiting_tickets.metadata is 'as sent with the claim; the reservation of a promotion takes it over';
  create index waiting_tickets_ended_by_user on waiting_tickets (campaign_id, user_id) where status <> 'waiting';
  create unique index waiting_tickets_one_per_user on waiting_tickets (campaign_id, user_id) where status = 'waiting';

  create table redemption_links (
    campaign_id uuid not null references campaigns,
    bucket smallint not null,
    batch bigint not null check (batch >= 1),
    link bytea not null,
    primary key (campaign_id, bucket, batch)
  );
  comment on column redemption_links.link is 'digest of the rows of the batch and of the link before it';
  create table redemption_history (
    campaign_id uuid not null,
    bucket smallint not null,
    batch bigint not null check (batch >= 1),
    position integer not null,
    reservation_id uuid not null,
    journal_id text not null,
    kind text not null,
    at timestamptz not null,
    actor text not null,
    reason text,
    reason_salt bytea,
    reason_digest bytea,
    detail jsonb,
    primary key (campaign_id, bucket, batch, position),
    check (bucket = redemption_bucket(reservation_id))
  );
  comment on table redemption_history is 'each change of a reservation after it was made; the row of the reservation is its first state';
  comment on column redemption_history.actor is 'shopper, a payment provider, the name of a key or an operator, or what restated it; empty = the service itself';
  comment on column redemption_history.reason_salt is 'an erasure removes it with the reason, so that the digest says nothing about the reason';
  create index redemption_history_by_reservation on redemption_history (campaign_id, reservation_id);
  create function redemption_history_is_append_only() returns trigger language plpgsql as $$
  begin
    if tg_op = 'UPDATE' and current_setting('doorbuster.erases_user', true) = 'yes' then
      return null;
    end if;
    raise exception '% is append-only', tg_table_name;
  end $$;
  create trigger redemption_history_append_only before update or delete or truncate on redemption_history
    for each statement execute function redemption_history_is_append_only();
  create trigger redemption_links_append_only before update or delete or truncate on redemption_links
    for each statement execute function redemption_history_is_append_only();

  create table duplicate_payments (
    reservation_id uuid not null,
    payment_ref text not null,
    campaign_id uuid not null references campaigns,
    paid_at timestamptz not null,
    primary key (reservation_id, payment_ref)
  );
  create index duplicate_payments_by_campaign on duplicate_payments (campaign_id, paid_at);
  create index duplicate_payments_by_ref on duplicate_payments (payment_ref);

  create table payment_events (
    provider text not null,
    event_id text not null,
    kind text not null check (kind in ('succeeded', 'failed', 'expired', 'refunded')),
    reservation_id uuid,
    payment_ref text,
    partial boolean not null default false,
    amount bigint,
    currency text,
    outcome text not null,
    named jsonb,
    may_be_unpaid boolean not null default false,
    received_at timestamptz not null default now(),
    settled_at timestamptz,
    check ((reservation_id is null) = (named is not null))
  );
  comment on table payment_events is 'what payment providers have reported; a row for each reservation of an event';
  comment on column payment_events.reservation_id is 'null = the event names none that exists';
  comment on column payment_events.partial is 'whether the event is about a part of the amount, which changes nothing';
  comment on column payment_events.amount is 'in minor units; null = the provider does not say';
  comment on column payment_events.named is 'how an event names a reservation that does not exist';
  comment on column payment_events.may_be_unpaid is 'whether a refund may also be the end of an attempt that was never paid';
  comment on column payment_events.settled_at is 'when an operator marked that it needs no action; null = none has';
  create unique index payment_events_once on payment_events
    (provider, event_id, coalesce(reservation_id, '00000000-0000-0000-0000-000000000000'));
  create index payment_events_by_outcome on payment_events (outcome, received_at);
  create index payment_events_by_ref on payment_events (payment_ref) where payment_ref is not null;
  create index payment_events_by_reservation on payment_events (reservation_id) where reservation_id is not null;
  create index payment_events_by_time on payment_events (received_at);

  create table redemption_attempts (
    attempt_id uuid primary key,
    at timestamptz not null,
    action text not null,
    outcome text not null,
    campaign_id uuid,
    code text,
    code_hash text,
    user_id text,
    device_fp text,
    network text,
    reservation_id uuid
  );
  comment on column redemption_attempts.at is 'by the clock of Redis, as answers are';
  comment on column redemption_attempts.outcome is 'what was answered: a status, or the code of an error';
  comment on column redemption_attempts.code is 'canonical; only of codes that exist';
  comment on column redemption_attempts.code_hash is 'of a code that does not: tells whether two guesses are the same';
  comment on column redemption_attempts.network is 'IPv4 address or IPv6 /64';
  create index redemption_attempts_by_user on redemption_attempts (user_id, attempt_id) where user_id is not null;

  create table remembered_answers (
    idempotency_key text not null,
    campaign_id uuid not null references campaigns,
    answer text not null,
    made_at timestamptz not null,
    primary key (campaign_id, idempotency_key)
  );
  comment on column remembered_answers.idempotency_key is 'user|key; |key of an operator';
  create index remembered_answers_by_time on remembered_answers (made_at);
  create index remembered_answers_by_user on remembered_answers (campaign_id, split_part(answer, '|', 3));
`;
