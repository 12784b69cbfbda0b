import type { Knex } from 'knex';

/**
 * The events: rows are written by the transaction that caused them and never changed. The second table has the webhook
 * endpoints, each with its position. The Redis stream needs no cursor here: its entries have the row's `seq` as their
 * id, so its last id is its position.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create function event_id_of(subject text, type text) returns uuid language sql immutable strict parallel safe
      return overlay(overlay(left(encode(sha256(decode(subject || ' ' || type, 'escape')), 'hex'), 32)
        placing '8' from 13) placing '8' from 17)::uuid;
    comment on function event_id_of is 'a UUIDv8: whoever tells the same event again tells it under the same id';

    create table outbox (
      seq bigint generated always as identity primary key,
      event_id uuid not null unique,
      type text not null,
      subject text not null,
      campaign_id uuid not null,
      product_id text not null,
      occurred_at timestamptz not null,
      trace text,
      data jsonb not null
    );
    comment on column outbox.seq is 'the order in which it happened; taken under the lock on journal_cursor';
    comment on column outbox.subject is 'reservation id, of campaign events the product id';
    create index outbox_by_time on outbox using brin (occurred_at) with (pages_per_range = 16);

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
      leased_until timestamptz
    );
    comment on column webhook_endpoints.types is 'null = all';
    comment on column webhook_endpoints.last_seq is 'last event it has heard or does not want';
    comment on column webhook_endpoints.attempts is 'failed deliveries of the event it is at';
    comment on column webhook_endpoints.lease is 'who delivers to it now; another may when leased_until has passed';

    create table webhook_replays (
      replay_id bigint generated always as identity primary key,
      endpoint_id uuid not null references webhook_endpoints on delete cascade,
      next_seq bigint not null,
      to_seq bigint not null,
      requested_at timestamptz not null default now()
    );
    create index webhook_replays_by_endpoint on webhook_replays (endpoint_id, replay_id);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
