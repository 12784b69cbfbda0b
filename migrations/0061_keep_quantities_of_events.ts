import type { Knex } from 'knex';

/**
 * The view of migration 0055, with the units that a reservation had at a late payment (decision 65): those of a later
 * payment that acquired the units again, before any of them were refunded. Events `extended` and `duplicated` store the
 * quantity of their time in `extra` from now on. Older ones have no quantity of their own and are read as before.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
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
      when o.type = 'dev.doorbuster.payment.late.v1' and o.occurred_at < r.redeemed_at then r.qty + r.refunded_qty
      else r.qty end as qty) q on true
    where o.data is not null or r.redemption_id is not null;
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
