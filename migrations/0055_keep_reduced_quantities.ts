import type { Knex } from 'knex';

/**
 * Units of a reservation that were given back while it kept others (decision 65). `qty` has the units that are left, so
 * the cap counts only those. The triggers count units that were burned in this way as burned. Events have the number of
 * units that the reservation had when they happened. Rows of reservations that gave nothing back stay as they are.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
    select 1 from journal_cursor for update;
    alter table redemptions
      add column released_qty integer not null default 0,
      add column refunded_qty integer not null default 0,
      add column burned_qty integer not null default 0,
      add column reduced_at timestamptz;
    comment on column redemptions.qty is 'units that the reservation has, without those that were given back while it kept others';
    comment on column redemptions.released_qty is 'units that were given back before the payment, while it kept others';
    comment on column redemptions.refunded_qty is 'units that were refunded while it kept others';
    comment on column redemptions.burned_qty is 'units of refunded_qty that are not sold again';
    comment on column redemptions.reduced_at is 'when units were last given back while it kept others';
    ${COUNT}
    ${VIEW}
  `);
}

/** The function of migration 0029, which counts burned_qty as well. */
const COUNT = `
    create or replace function redemptions_count_taken() returns trigger language plpgsql as $$
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
      if tg_op = 'INSERT' then
        with d as (
          select campaign_id, coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
            coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
            coalesce(sum(qty) filter (where burned), 0) + sum(burned_qty) as burned, count(*) as made
          from new_rows group by campaign_id
        ), counted as (
          update campaigns c set taken = c.taken + d.held + d.redeemed + d.burned, held = c.held + d.held,
            redeemed = c.redeemed + d.redeemed, burned = c.burned + d.burned, reservations = c.reservations + d.made
          from d where c.campaign_id = d.campaign_id returning c.buckets
        ) select (select count(*) from d) - count(*), max(buckets) from counted into missing, most;
        if most > 1 then
          update campaign_buckets b set held = b.held + d.held, redeemed = b.redeemed + d.redeemed,
            burned = b.burned + d.burned, reservations = b.reservations + d.made
          from (
            select campaign_id, redemption_bucket(redemption_id) as bucket,
              coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
              coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
              coalesce(sum(qty) filter (where burned), 0) + sum(burned_qty) as burned, count(*) as made
            from new_rows group by 1, 2
          ) d where b.campaign_id = d.campaign_id and b.bucket = d.bucket;
        end if;
      elsif tg_op = 'DELETE' then
        with d as (
          select campaign_id, coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
            coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
            coalesce(sum(qty) filter (where burned), 0) + sum(burned_qty) as burned, count(*) as made
          from old_rows group by campaign_id
        ), counted as (
          update campaigns c set taken = c.taken - d.held - d.redeemed - d.burned, held = c.held - d.held,
            redeemed = c.redeemed - d.redeemed, burned = c.burned - d.burned, reservations = c.reservations - d.made
          from d where c.campaign_id = d.campaign_id returning c.buckets
        ) select max(buckets) from counted into most;
        if most > 1 then
          update campaign_buckets b set held = b.held - d.held, redeemed = b.redeemed - d.redeemed,
            burned = b.burned - d.burned, reservations = b.reservations - d.made
          from (
            select campaign_id, redemption_bucket(redemption_id) as bucket,
              coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
              coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
              coalesce(sum(qty) filter (where burned), 0) + sum(burned_qty) as burned, count(*) as made
            from old_rows group by 1, 2
          ) d where b.campaign_id = d.campaign_id and b.bucket = d.bucket;
        end if;
      else
        with d as (
          select * from (
            select campaign_id, coalesce(sum(units) filter (where status = 'reserved'), 0) as held,
              coalesce(sum(units) filter (where status = 'redeemed'), 0) as redeemed,
              coalesce(sum(units) filter (where burned), 0) + sum(burned_qty) as burned, sum(rows) as made
            from (
              select campaign_id, status, burned, qty as units, burned_qty, 1 as rows from new_rows
              union all
              select campaign_id, status, burned, -qty, -burned_qty, -1 from old_rows
            ) changed group by campaign_id) sums
          where held <> 0 or redeemed <> 0 or burned <> 0 or made <> 0
        ), counted as (
          update campaigns c set taken = c.taken + d.held + d.redeemed + d.burned, held = c.held + d.held,
            redeemed = c.redeemed + d.redeemed, burned = c.burned + d.burned, reservations = c.reservations + d.made
          from d where c.campaign_id = d.campaign_id returning c.buckets
        ) select (select count(*) from d) - count(*), max(buckets) from counted into missing, most;
        if most > 1 then
          update campaign_buckets b set held = b.held + d.held, redeemed = b.redeemed + d.redeemed,
            burned = b.burned + d.burned, reservations = b.reservations + d.made
          from (
            select * from (
              select campaign_id, bucket, coalesce(sum(units) filter (where status = 'reserved'), 0) as held,
                coalesce(sum(units) filter (where status = 'redeemed'), 0) as redeemed,
                coalesce(sum(units) filter (where burned), 0) + sum(burned_qty) as burned, sum(rows) as made
              from (
                select campaign_id, redemption_bucket(redemption_id) as bucket, status, burned, qty as units, burned_qty, 1 as rows
                from new_rows
                union all
                select campaign_id, redemption_bucket(redemption_id), status, burned, -qty, -burned_qty, -1 from old_rows
              ) changed group by 1, 2) sums
            where held <> 0 or redeemed <> 0 or burned <> 0 or made <> 0
          ) d where b.campaign_id = d.campaign_id and b.bucket = d.bucket;
        end if;
      end if;
      if missing > 0 then
        raise exception 'a redemption names a campaign that does not exist'
          using errcode = 'foreign_key_violation', constraint = 'redemptions_campaign_id_fkey', table = 'redemptions';
      end if;
      return null;
    end $$;
`;

/** The view of migration 0049, with the units of the reservation at the time of the event. */
const VIEW = `
    create or replace view outbox_events as
    select o.seq, coalesce(o.event_id, event_id_of(o.reservation_id::text, o.type)) as event_id, o.type,
      coalesce(o.subject, o.reservation_id::text) as subject, o.campaign_id, coalesce(o.product_id, c.product_id) as product_id,
      o.occurred_at,
      case when o.event_id is null then r.trace else o.trace end as trace,
      coalesce(o.data, jsonb_build_object('campaign_id', o.campaign_id, 'product_id', c.product_id,
          'reservation_id', o.reservation_id, 'user_id', r.user_id, 'order_id', r.order_id, 'qty', q.qty,
          'discount', case when t.version is null then c.discount else t.discount end, 'device_fp', coalesce(r.device_fp, w.device_fp))
        || case o.type
          when 'dev.doorbuster.redemption.reserved.v1' then jsonb_build_object('pay_before', p.pay_before)
          when 'dev.doorbuster.redemption.redeemed.v1' then jsonb_build_object('payment_ref', null, 'reacquired', false)
          when 'dev.doorbuster.waiting.promoted.v1' then jsonb_build_object('line_no', r.line_no, 'pay_before', p.pay_before)
          else '{}' end
        || case when r.metadata is null then '{}' else jsonb_build_object('metadata', r.metadata) end
        || coalesce(o.extra, '{}')) as data
    from outbox o
    left join campaigns c on c.campaign_id = o.campaign_id
    left join redemptions r on r.campaign_id = o.campaign_id and r.redemption_id = o.reservation_id
    left join campaign_terms t on t.campaign_id = r.campaign_id and t.version = r.terms_version
    left join waiting_tickets w on w.campaign_id = r.campaign_id and w.line_no = r.line_no
    left join lateral (select to_char(r.pay_before at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as pay_before) p on true
    left join lateral (select case
      when o.type in ('dev.doorbuster.redemption.reserved.v1', 'dev.doorbuster.waiting.promoted.v1')
        then r.qty + r.released_qty + r.refunded_qty
      when o.type in ('dev.doorbuster.redemption.redeemed.v1', 'dev.doorbuster.redemption.released.v1',
        'dev.doorbuster.redemption.expired.v1', 'dev.doorbuster.redemption.extended.v1') then r.qty + r.refunded_qty
      else r.qty end as qty) q on true
    where o.data is not null or r.redemption_id is not null;
`;

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
