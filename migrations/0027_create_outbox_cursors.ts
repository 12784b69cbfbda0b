import type { Knex } from 'knex';

/**
 * Positions of destinations of the outbox that have no other place for them. A worker leases the row, so that one
 * worker at a time sends to the destination.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
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
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
