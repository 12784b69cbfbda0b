import type { Knex } from 'knex';

/**
 * Keeps of an event about a reservation only the values that the reservation, its campaign and its terms do not have:
 * `outbox_events` computes the rest when the event is read. A row of an earlier version is complete and is read as it
 * is. Processes of earlier versions cannot read the new rows, so each process reports its version
 * (`journal_processes`), and the new form is written once all of them can (shared/projection/journal-cursor.ts).
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    select 1 from journal_cursor for update;

    alter table outbox
      alter column event_id drop not null,
      alter column subject drop not null,
      alter column product_id drop not null,
      alter column data drop not null,
      add column reservation_id uuid,
      add column extra jsonb;
    comment on column outbox.event_id is
      'null = computed from reservation and type: the event of the entry that made the reservation, written with its row';
    comment on column outbox.trace is 'of an event without an id: that of the reservation';
    comment on column outbox.subject is 'product id; null = the reservation';
    comment on column outbox.data is 'null = computed from the reservation';
    comment on column outbox.extra is 'members of data that the reservation does not say, or that may change later';

    create view outbox_events as
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
    left join redemptions r on r.redemption_id = o.reservation_id
    left join campaign_terms t on t.campaign_id = r.campaign_id and t.version = r.terms_version
    left join waiting_tickets w on w.campaign_id = r.campaign_id and w.line_no = r.line_no
    left join lateral (select to_char(r.pay_before at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as pay_before) p on true;
    comment on view outbox_events is 'events as they are published, whichever version wrote their rows';

    alter table journal_processes add column version integer not null default 1;
    comment on column journal_processes.version is 'of the records that it can read: 2 = events without data, journal entries with several promises';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
