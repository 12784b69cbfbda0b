import type { Knex } from 'knex';

/**
 * Redemptions. A row takes units and one of its user's allowances while it is reserved, redeemed, or refunded with its
 * unit burned. Three guards stand in the schema and hold against every writer: the cap (campaigns_cap, through the
 * trigger), one row per allowance (redemptions_one_per_allowance), and the number of allowances (in the trigger).
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table redemptions (
      redemption_id uuid primary key,
      campaign_id uuid not null references campaigns,
      user_id text not null,
      order_id text not null,
      qty integer not null check (qty >= 1),
      slot integer not null check (slot >= 1),
      status text not null check (status in ('reserved', 'redeemed', 'released', 'expired', 'refunded', 'voided')),
      burned boolean not null default false check (not burned or status = 'refunded'),
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
      trace text
    );
    comment on column redemptions.slot is 'which of the user''s per_user_limit allowances this row takes';
    comment on column redemptions.line_no is 'line number of the ticket it was promoted from; null = never waited';
    comment on column redemptions.released_at is 'when it was released, expired or voided';

    create unique index redemptions_one_per_allowance on redemptions (campaign_id, user_id, slot)
      where status in ('reserved', 'redeemed') or burned;
    create index redemptions_by_campaign on redemptions (campaign_id, redemption_id);
    create index redemptions_by_time on redemptions using brin (reserved_at) with (pages_per_range = 16);

    create function ms(milliseconds bigint) returns timestamptz language sql immutable strict parallel safe
      return to_timestamp(milliseconds / 1000.0);
    comment on function ms is 'time of the journal (milliseconds since 1970) as a timestamp';

    create function redemptions_count_taken() returns trigger language plpgsql as $$
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
        update campaigns c set taken = c.taken + d.units
        from (select campaign_id, sum(qty) as units from new_rows
              where status in ('reserved', 'redeemed') or burned group by campaign_id) d
        where c.campaign_id = d.campaign_id;
      elsif tg_op = 'DELETE' then
        update campaigns c set taken = c.taken - d.units
        from (select campaign_id, sum(qty) as units from old_rows
              where status in ('reserved', 'redeemed') or burned group by campaign_id) d
        where c.campaign_id = d.campaign_id;
      else
        update campaigns c set taken = c.taken + d.units
        from (select campaign_id, sum(units) as units from (
                select campaign_id, qty as units from new_rows where status in ('reserved', 'redeemed') or burned
                union all
                select campaign_id, -qty from old_rows where status in ('reserved', 'redeemed') or burned
              ) changed group by campaign_id having sum(units) <> 0) d
        where c.campaign_id = d.campaign_id;
      end if;
      return null;
    end $$;
    create trigger redemptions_taken_insert after insert on redemptions
      referencing new table as new_rows for each statement execute function redemptions_count_taken();
    create trigger redemptions_taken_update after update on redemptions
      referencing old table as old_rows new table as new_rows for each statement execute function redemptions_count_taken();
    create trigger redemptions_taken_delete after delete on redemptions
      referencing old table as old_rows for each statement execute function redemptions_count_taken();
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
