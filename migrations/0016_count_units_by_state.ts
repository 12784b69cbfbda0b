import type { Knex } from 'knex';

/**
 * Counts the units of each campaign by state, so that Redis and Postgres can be compared without reading rows, and
 * widens the counters: an unlimited campaign sells more units than 32 bits hold. Existing rows are counted here. The
 * worker is kept out by the lock on journal_cursor; reads go on.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    select 1 from journal_cursor for update;
    lock table redemptions in share row exclusive mode;

    alter table campaigns
      alter column taken type bigint,
      alter column total_limit type bigint,
      add column held bigint not null default 0 check (held >= 0),
      add column redeemed bigint not null default 0 check (redeemed >= 0),
      add column burned bigint not null default 0 check (burned >= 0),
      add column reservations bigint not null default 0 check (reservations >= 0);
    comment on column campaigns.taken is 'held + redeemed + burned; kept by the triggers on redemptions, as the other counters';
    comment on column campaigns.held is 'units of rows that are reserved';
    comment on column campaigns.redeemed is 'units of rows that are redeemed';
    comment on column campaigns.burned is 'units of rows that are refunded and whose units do not return';
    comment on column campaigns.reservations is 'rows in redemptions, in every state';

    create or replace function redemptions_count_taken() returns trigger language plpgsql as $$
    begin
      if tg_op in ('INSERT', 'UPDATE') then
        if exists (
          select 1 from new_rows n join campaigns c using (campaign_id)
          where (n.status in ('reserved', 'redeemed') or n.burned) and n.slot > c.per_user_limit
        ) then
          raise exception 'the user has no such allowance'
            using errcode = 'check_violation', constraint = 'redemptions_within_limit', table = 'redemptions';
        end if;
      end if;
      if tg_op = 'INSERT' then
        update campaigns c set taken = c.taken + d.held + d.redeemed + d.burned, held = c.held + d.held,
          redeemed = c.redeemed + d.redeemed, burned = c.burned + d.burned, reservations = c.reservations + d.made
        from (select campaign_id, coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
                coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
                coalesce(sum(qty) filter (where burned), 0) as burned, count(*) as made
              from new_rows group by campaign_id) d
        where c.campaign_id = d.campaign_id;
      elsif tg_op = 'DELETE' then
        update campaigns c set taken = c.taken - d.held - d.redeemed - d.burned, held = c.held - d.held,
          redeemed = c.redeemed - d.redeemed, burned = c.burned - d.burned, reservations = c.reservations - d.made
        from (select campaign_id, coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
                coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
                coalesce(sum(qty) filter (where burned), 0) as burned, count(*) as made
              from old_rows group by campaign_id) d
        where c.campaign_id = d.campaign_id;
      else
        update campaigns c set taken = c.taken + d.held + d.redeemed + d.burned, held = c.held + d.held,
          redeemed = c.redeemed + d.redeemed, burned = c.burned + d.burned, reservations = c.reservations + d.made
        from (select * from (
                select campaign_id, coalesce(sum(units) filter (where status = 'reserved'), 0) as held,
                  coalesce(sum(units) filter (where status = 'redeemed'), 0) as redeemed,
                  coalesce(sum(units) filter (where burned), 0) as burned, sum(rows) as made
                from (
                  select campaign_id, status, burned, qty as units, 1 as rows from new_rows
                  union all
                  select campaign_id, status, burned, -qty, -1 from old_rows
                ) changed group by campaign_id) sums
              where held <> 0 or redeemed <> 0 or burned <> 0 or made <> 0) d
        where c.campaign_id = d.campaign_id;
      end if;
      return null;
    end $$;

    update campaigns c set taken = d.held + d.redeemed + d.burned, held = d.held, redeemed = d.redeemed, burned = d.burned,
      reservations = d.made
    from (select campaign_id, coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
            coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
            coalesce(sum(qty) filter (where burned), 0) as burned, count(*) as made
          from redemptions group by campaign_id) d
    where c.campaign_id = d.campaign_id;

    alter table campaigns add constraint campaigns_states check (taken = held + redeemed + burned);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
