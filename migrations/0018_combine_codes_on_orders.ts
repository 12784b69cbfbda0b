import type { Knex } from 'knex';

/**
 * The codes that may be on one order of a user. The script that takes the unit decides; the schema refuses what a Redis
 * that lost data would allow. Rows and places of earlier versions have no value and exclude no code. The check of
 * exclusive codes reads other rows, so it relies on the lock on journal_cursor that every writer of redemptions holds,
 * as redemptions_within_limit does; two codes of one group, or two exclusive ones, are kept apart by the index alone.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table redemptions add column stacking text;
    alter table waiting_tickets add column stacking text;
    comment on column redemptions.stacking is
      'how it takes part in its order: combines, exclusive, group:<name>; null = not, or made before this was kept';
    comment on column waiting_tickets.stacking is 'how the reservation will take part in its order';

    create unique index redemptions_one_per_order on redemptions (user_id, order_id, stacking)
      where stacking <> 'combines' and status in ('reserved', 'redeemed');
    create index redemptions_by_order on redemptions (user_id, order_id)
      where stacking is not null and status in ('reserved', 'redeemed');

    create function redemptions_check_orders() returns trigger language plpgsql as $$
    begin
      if exists (
        select 1 from new_rows n
        join redemptions r on r.user_id = n.user_id and r.order_id = n.order_id and r.redemption_id <> n.redemption_id
        where n.stacking is not null and n.status in ('reserved', 'redeemed')
          and r.stacking is not null and r.status in ('reserved', 'redeemed')
          and 'exclusive' in (n.stacking, r.stacking)
      ) then
        raise exception 'the order has a code that excludes this one'
          using errcode = 'check_violation', constraint = 'redemptions_combinable', table = 'redemptions';
      end if;
      return null;
    end $$;
    create trigger redemptions_orders_insert after insert on redemptions
      referencing new table as new_rows for each statement execute function redemptions_check_orders();
    create trigger redemptions_orders_update after update on redemptions
      referencing new table as new_rows for each statement execute function redemptions_check_orders();
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
