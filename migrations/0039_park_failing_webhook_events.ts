import type { Knex } from 'knex';

/**
 * A failing event of one reservation no longer holds up the others. It is parked with the later events of its
 * reservation (or campaign), and the endpoint goes on with the rest. An endpoint may also want some campaigns only.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table webhook_endpoints add column campaign_ids uuid[];
    comment on column webhook_endpoints.campaign_ids is 'null = all';

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
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
