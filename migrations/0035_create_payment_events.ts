import type { Knex } from 'knex';

/**
 * What payment providers have reported, and what was done about it. A provider may send an event again, so its id is
 * unique. No foreign key to redemptions, because an event may name a reservation that does not exist.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table payment_events (
      provider text not null,
      event_id text not null,
      kind text not null check (kind in ('succeeded', 'failed', 'expired', 'refunded')),
      reservation_id uuid,
      payment_ref text,
      partial boolean not null default false,
      outcome text not null,
      received_at timestamptz not null default now(),
      primary key (provider, event_id)
    );
    create index payment_events_by_reservation on payment_events (reservation_id) where reservation_id is not null;
    create index payment_events_by_ref on payment_events (payment_ref) where payment_ref is not null;
    create index payment_events_by_time on payment_events (received_at);
    comment on column payment_events.partial is 'whether the event is about a part of the amount, which changes nothing';
    comment on column payment_events.reservation_id is 'null = the event names none that exists';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
