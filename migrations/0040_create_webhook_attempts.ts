import type { Knex } from 'knex';

/** Attempts to deliver events: the last ones of each endpoint, for operators. A sweep deletes older ones. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
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
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
