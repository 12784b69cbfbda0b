import type { Knex } from 'knex';

/**
 * Buckets of a campaign (docs/buckets.md): how many, the units of each, and the units that move between them. Postgres
 * refuses a bucket that takes more units than it has, and a transaction after which the units of all buckets, and
 * those on their way, are not the units of the campaign. The bucket of a reservation is in its id. Campaigns without
 * buckets have no rows here; for them the triggers do what they did.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
    select 1 from journal_cursor for update;

    -- Four of the 31 bits of a number are those of the bucket.
    alter table campaigns add constraint campaigns_no_without_bucket check ((no & 125829120) = 0) not valid;
    alter table campaigns add column buckets smallint not null default 1 check (buckets between 1 and 16);
    comment on column campaigns.buckets is 'parts of its stock, each in another shard; 1 = not divided';

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
    comment on column campaign_buckets.held is 'kept by the triggers on redemptions, as redeemed, burned and reservations';
    comment on column campaign_buckets.sealed_at is 'since when its units go to users in line only';

    create table stock_transfers (
      campaign_id uuid not null references campaigns on delete cascade,
      from_bucket smallint not null,
      out_no bigint not null,
      to_bucket smallint not null,
      units bigint not null check (units > 0),
      moved_out_at timestamptz not null,
      moved_in_at timestamptz,
      primary key (campaign_id, from_bucket, out_no),
      foreign key (campaign_id, from_bucket) references campaign_buckets (campaign_id, bucket) on delete cascade,
      foreign key (campaign_id, to_bucket) references campaign_buckets (campaign_id, bucket) on delete cascade,
      check (from_bucket <> to_bucket)
    );
    create index stock_transfers_in_transit on stock_transfers (campaign_id, out_no) where moved_in_at is null;
    comment on table stock_transfers is 'units that moved from one bucket to another; without moved_in_at they are on their way';
    comment on column stock_transfers.out_no is 'number of the transfer in the bucket that gave the units';

    create function redemption_bucket(id uuid) returns smallint language sql immutable parallel safe
      return ((('x' || right(id::text, 8))::bit(32)::int >> 23) & 15);

    ${CONSERVE}
    ${COUNT}
  `);
}

/** At the commit, because a transfer or a restock changes several rows. */
const CONSERVE = `
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

/** The function of migration 0023, which also counts for the buckets of the campaigns that have some. */
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
            coalesce(sum(qty) filter (where burned), 0) as burned, count(*) as made
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
              coalesce(sum(qty) filter (where burned), 0) as burned, count(*) as made
            from new_rows group by 1, 2
          ) d where b.campaign_id = d.campaign_id and b.bucket = d.bucket;
        end if;
      elsif tg_op = 'DELETE' then
        with d as (
          select campaign_id, coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
            coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
            coalesce(sum(qty) filter (where burned), 0) as burned, count(*) as made
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
              coalesce(sum(qty) filter (where burned), 0) as burned, count(*) as made
            from old_rows group by 1, 2
          ) d where b.campaign_id = d.campaign_id and b.bucket = d.bucket;
        end if;
      else
        with d as (
          select * from (
            select campaign_id, coalesce(sum(units) filter (where status = 'reserved'), 0) as held,
              coalesce(sum(units) filter (where status = 'redeemed'), 0) as redeemed,
              coalesce(sum(units) filter (where burned), 0) as burned, sum(rows) as made
            from (
              select campaign_id, status, burned, qty as units, 1 as rows from new_rows
              union all
              select campaign_id, status, burned, -qty, -1 from old_rows
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
                coalesce(sum(units) filter (where burned), 0) as burned, sum(rows) as made
              from (
                select campaign_id, redemption_bucket(redemption_id) as bucket, status, burned, qty as units, 1 as rows from new_rows
                union all
                select campaign_id, redemption_bucket(redemption_id), status, burned, -qty, -1 from old_rows
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

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
