import type { Knex } from 'knex';

/** Its index is built without holding up writers, which no transaction can. An interrupted run is repeated as it is. */
export const config = { transaction: false };

/**
 * Prepares `redemptions` for partitions, so that the rows of one campaign can be dropped at once. Processes of earlier
 * versions go on with the table as it is. `redemptions_partition()` then makes it a partition of a new table without
 * moving a row. `npm run migrate` calls it once no process of an earlier version is left (shared/postgres/migrate.ts).
 */
export async function up(knex: Knex): Promise<void> {
  // What an interrupted build leaves is invalid.
  await knex.raw(`
    do $$ begin
      if exists (select 1 from pg_index where indexrelid = to_regclass('redemptions_once_by_campaign') and not indisvalid) then
        drop index redemptions_once_by_campaign;
      end if;
    end $$`);
  await knex.raw(`create unique index concurrently if not exists redemptions_once_by_campaign
    on redemptions (campaign_id, redemption_id)`);
  await knex.raw('drop index concurrently if exists redemptions_by_campaign');
  await knex.raw(PREPARE);
}

/** One transaction, since the statements are sent together. */
const PREPARE = `
  alter table campaigns add column if not exists redemptions_dropped_at timestamptz;
  comment on column campaigns.redemptions_dropped_at is
    'when the rows of its reservations were dropped; the counters stay. null = they are there';
  comment on index redemptions_once_by_campaign is 'what the unique index of all partitions consists of';

  create or replace function redemptions_check_orders() returns trigger language plpgsql as $$
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

  create or replace view outbox_events as
  select o.seq, coalesce(o.event_id, event_id_of(o.reservation_id::text, o.type)) as event_id, o.type,
    coalesce(o.subject, o.reservation_id::text) as subject, o.campaign_id, coalesce(o.product_id, c.product_id) as product_id,
    o.occurred_at,
    case when o.event_id is null then r.trace else o.trace end as trace,
    coalesce(o.data, jsonb_build_object('campaign_id', o.campaign_id, 'product_id', c.product_id,
        'reservation_id', o.reservation_id, 'user_id', r.user_id, 'order_id', r.order_id, 'qty', r.qty,
        'discount', case when t.version is null then c.discount else t.discount end, 'device_fp', coalesce(r.device_fp, w.device_fp))
      || case o.type
        when 'dev.doorbuster.redemption.reserved.v1' then jsonb_build_object('pay_before', p.pay_before)
        when 'dev.doorbuster.redemption.redeemed.v1' then jsonb_build_object('payment_ref', null, 'reacquired', false)
        when 'dev.doorbuster.waiting.promoted.v1' then jsonb_build_object('line_no', r.line_no, 'pay_before', p.pay_before)
        else '{}' end
      || coalesce(o.extra, '{}')) as data
  from outbox o
  left join campaigns c on c.campaign_id = o.campaign_id
  left join redemptions r on r.campaign_id = o.campaign_id and r.redemption_id = o.reservation_id
  left join campaign_terms t on t.campaign_id = r.campaign_id and t.version = r.terms_version
  left join waiting_tickets w on w.campaign_id = r.campaign_id and w.line_no = r.line_no
  left join lateral (select to_char(r.pay_before at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as pay_before) p on true
  where o.data is not null or r.redemption_id is not null;
  comment on view outbox_events is
    'events as they are published, whichever version wrote their rows; without those whose reservations were dropped';

  create or replace function redemptions_partition() returns void language plpgsql as $$
  begin
    if (select relkind from pg_class where oid = 'redemptions'::regclass) = 'p' then
      return;
    end if;
    -- In the order of every writer of redemptions, so that none deadlocks.
    perform 1 from journal_cursor for update;
    lock table redemptions in access exclusive mode;
    alter table redemptions rename to redemptions_shared;
    create table redemptions (like redemptions_shared including defaults including constraints including comments)
      partition by list (campaign_id);
    alter table redemptions attach partition redemptions_shared default;
    create unique index redemptions_of_all on redemptions (campaign_id, redemption_id);
    perform redemptions_add_triggers('redemptions');
    -- The view refers to the table that it was made with.
    execute 'create or replace view outbox_events as '
      || regexp_replace(pg_get_viewdef('outbox_events'::regclass), '\\mredemptions_shared\\M', 'redemptions', 'g');
  end $$;
  comment on function redemptions_partition is 'makes redemptions the partition redemptions_shared of a table of that name, once';

  create or replace function redemptions_add_triggers(target regclass) returns void language plpgsql as $$
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
  end $$;

  create or replace function redemptions_add_partition(campaign uuid) returns void language plpgsql as $$
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
`;

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
