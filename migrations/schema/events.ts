/** Events, and what their destinations have got of them. The view `outbox_events` has each event as it is published. */
export const EVENTS = `
  create function event_id_of(subject text, type text) returns uuid language sql immutable strict parallel safe
    return overlay(overlay(left(encode(sha256(decode(subject || ' ' || type, 'escape')), 'hex'), 32)
      placing '8' from 13) placing '8' from 17)::uuid;
  comment on function event_id_of is 'a UUIDv8: whoever tells the same event again tells it under the same id';

  create table outbox (
    seq bigint generated always as identity primary key,
    event_id uuid unique,
    type text not null,
    subject text,
    campaign_id uuid check (campaign_id is not null or type = 'dev.doorbuster.payment.unknown.v1'),
    product_id text,
    occurred_at timestamptz not null,
    trace text,
    data jsonb,
    reservation_id uuid,
    extra jsonb
  );
  comment on column outbox.seq is 'the order in which it happened; taken under the lock on journal_cursor';
  comment on column outbox.event_id is
    'null = computed from reservation and type: the event of the entry that made the reservation, written with its row';
  comment on column outbox.subject is 'product id, or an unknown payment; null = the reservation';
  comment on column outbox.trace is 'of an event without an id: that of the reservation';
  comment on column outbox.data is 'null = computed from the reservation';
  comment on column outbox.extra is 'members of data that the reservation does not say, or that may change later';
  create index outbox_by_reservation on outbox (reservation_id) where type <> 'dev.doorbuster.redemption.reserved.v1';
  create index outbox_by_time on outbox using brin (occurred_at) with (pages_per_range = 16);
  create index outbox_with_data on outbox (seq) where data is not null;

  create view outbox_events as
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
  comment on view outbox_events is 'events as they are published, without those whose reservations were dropped';

  create table outbox_cursors (
    destination text primary key,
    last_seq bigint not null,
    created_at timestamptz not null default now(),
    last_sent_at timestamptz,
    attempts integer not null default 0,
    failing_since timestamptz,
    last_error text,
    skipped bigint not null default 0,
    lease uuid,
    leased_until timestamptz
  );
  comment on column outbox_cursors.last_seq is 'last event that the destination has received';
  comment on column outbox_cursors.attempts is 'failed attempts since the last success';
  comment on column outbox_cursors.skipped is 'events that were deleted before the destination received them';
  comment on column outbox_cursors.lease is 'run that sends to it now; another may when leased_until has passed';

  create table webhook_endpoints (
    endpoint_id uuid primary key,
    url text not null,
    secrets text[] not null check (cardinality(secrets) between 1 and 4),
    types text[],
    enabled boolean not null default true,
    disabled_reason text,
    created_at timestamptz not null default now(),
    last_seq bigint not null,
    last_delivered_at timestamptz,
    attempts integer not null default 0,
    failing_since timestamptz,
    next_attempt_at timestamptz,
    last_error text,
    lease uuid,
    leased_until timestamptz,
    campaign_ids uuid[]
  );
  comment on column webhook_endpoints.types is 'null = all';
  comment on column webhook_endpoints.last_seq is 'last event it has heard or does not want';
  comment on column webhook_endpoints.attempts is 'failed deliveries of the event it is at';
  comment on column webhook_endpoints.lease is 'who delivers to it now; another may when leased_until has passed';
  comment on column webhook_endpoints.campaign_ids is 'null = all';

  create table webhook_attempts (
    attempt_id bigint generated always as identity primary key,
    endpoint_id uuid not null references webhook_endpoints on delete cascade,
    event_id uuid not null,
    type text not null,
    subject text not null,
    attempted_at timestamptz not null default now(),
    delivered boolean not null,
    status integer,
    error text,
    duration_ms integer not null
  );
  comment on column webhook_attempts.status is 'of the response; null = there was none';
  create index webhook_attempts_by_endpoint on webhook_attempts (endpoint_id, delivered, attempt_id);

  create table webhook_parked (
    endpoint_id uuid not null references webhook_endpoints on delete cascade,
    subject text not null,
    seq bigint not null,
    attempts integer not null default 0,
    failing_since timestamptz,
    next_attempt_at timestamptz not null,
    last_error text,
    primary key (endpoint_id, subject, seq)
  );
  comment on table webhook_parked is 'events that wait because an event with the same subject failed, and that event';
  comment on column webhook_parked.next_attempt_at is
    'infinity = waits for the events before it, or was given up after a day of failures';
  create index webhook_parked_by_time on webhook_parked (endpoint_id, next_attempt_at);

  create table webhook_replays (
    replay_id bigint generated always as identity primary key,
    endpoint_id uuid not null references webhook_endpoints on delete cascade,
    next_seq bigint not null,
    to_seq bigint not null,
    requested_at timestamptz not null default now()
  );
  create index webhook_replays_by_endpoint on webhook_replays (endpoint_id, replay_id);

  create table push_subscriptions (
    reservation_id uuid not null,
    endpoint text not null,
    campaign_id uuid not null references campaigns,
    user_id text not null,
    p256dh text not null,
    auth text not null,
    language text not null,
    created_at timestamptz not null default now(),
    message text check (message in ('promoted', 'line_closed', 'campaign_closed', 'place_ended')),
    pay_before timestamptz,
    send_before timestamptz,
    attempts integer not null default 0,
    next_attempt_at timestamptz,
    primary key (reservation_id, endpoint),
    check ((message is null) = (next_attempt_at is null)),
    constraint push_subscriptions_check1 check ((message is null) = (send_before is null))
  );
  comment on column push_subscriptions.reservation_id is 'of the place, made at checkout';
  comment on column push_subscriptions.endpoint is 'URL at the push service of the browser';
  comment on column push_subscriptions.p256dh is 'public key of the browser, base64url';
  comment on column push_subscriptions.auth is 'authentication secret of the subscription, base64url';
  comment on column push_subscriptions.message is 'null = nothing to send yet';
  comment on column push_subscriptions.pay_before is 'of a promotion; null = nothing to pay';
  comment on column push_subscriptions.send_before is 'when the message is worth nothing any more';
  create index push_subscriptions_by_campaign on push_subscriptions (campaign_id) where message is null;
  create index push_subscriptions_by_user on push_subscriptions (user_id);
  create index push_subscriptions_due on push_subscriptions (next_attempt_at) where message is not null;
`;
