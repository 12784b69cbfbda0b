import type { Knex } from 'knex';

/**
 * Checks the campaign of redemptions once a statement, by the trigger that counts units, instead of once a row by a
 * foreign key: that was a quarter of the insert. The refusal keeps the name and the code of the foreign key. The other
 * direction: a campaign that has rows cannot be deleted, and the table cannot be truncated.
 *
 * The trigger updates the row of the campaign, so that a deletion at the same moment waits for the insert, or the
 * insert finds no row to update. The worker is kept out by the lock on journal_cursor.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    select 1 from journal_cursor for update;

    create or replace function redemptions_count_taken() returns trigger language plpgsql as $$
    declare missing bigint := 0;
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
        with d as (
          select campaign_id, coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
            coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
            coalesce(sum(qty) filter (where burned), 0) as burned, count(*) as made
          from new_rows group by campaign_id
        ), counted as (
          update campaigns c set taken = c.taken + d.held + d.redeemed + d.burned, held = c.held + d.held,
            redeemed = c.redeemed + d.redeemed, burned = c.burned + d.burned, reservations = c.reservations + d.made
          from d where c.campaign_id = d.campaign_id returning 1
        ) select (select count(*) from d) - (select count(*) from counted) into missing;
      elsif tg_op = 'DELETE' then
        update campaigns c set taken = c.taken - d.held - d.redeemed - d.burned, held = c.held - d.held,
          redeemed = c.redeemed - d.redeemed, burned = c.burned - d.burned, reservations = c.reservations - d.made
        from (select campaign_id, coalesce(sum(qty) filter (where status = 'reserved'), 0) as held,
                coalesce(sum(qty) filter (where status = 'redeemed'), 0) as redeemed,
                coalesce(sum(qty) filter (where burned), 0) as burned, count(*) as made
              from old_rows group by campaign_id) d
        where c.campaign_id = d.campaign_id;
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
          from d where c.campaign_id = d.campaign_id returning 1
        ) select (select count(*) from d) - (select count(*) from counted) into missing;
      end if;
      if missing > 0 then
        raise exception 'a redemption names a campaign that does not exist'
          using errcode = 'foreign_key_violation', constraint = 'redemptions_campaign_id_fkey', table = 'redemptions';
      end if;
      return null;
    end $$;

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

    alter table redemptions drop constraint redemptions_campaign_id_fkey;
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
