import type { Knex } from 'knex';

/**
 * What a shop attaches to a claim (decision 57). Rows without metadata cost nothing more. The view adds it to the
 * events of a reservation that has some.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
    select 1 from journal_cursor for update;
    alter table redemptions add column metadata jsonb;
    alter table waiting_tickets add column metadata jsonb;
    comment on column redemptions.metadata is 'flat object of texts that the caller sent with the claim; null = none';
    comment on column waiting_tickets.metadata is 'as sent with the claim; the reservation of a promotion takes it over';

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
        || case when r.metadata is null then '{}' else jsonb_build_object('metadata', r.metadata) end
        || coalesce(o.extra, '{}')) as data
    from outbox o
    left join campaigns c on c.campaign_id = o.campaign_id
    left join redemptions r on r.campaign_id = o.campaign_id and r.redemption_id = o.reservation_id
    left join campaign_terms t on t.campaign_id = r.campaign_id and t.version = r.terms_version
    left join waiting_tickets w on w.campaign_id = r.campaign_id and w.line_no = r.line_no
    left join lateral (select to_char(r.pay_before at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as pay_before) p on true
    where o.data is not null or r.redemption_id is not null;
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
