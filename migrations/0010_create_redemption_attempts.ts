import type { Knex } from 'knex';

/**
 * Each attempt to check or use a code, with its outcome, for a limited time. There are no foreign keys in either
 * direction: a check of references would cost every row, and the log also records invalid values. Ids are UUIDv7, so
 * the primary key is in the order of writing and the expired rows are its beginning. The worker deletes them in
 * batches. Dropping partitions would need the right to create tables at run time, and a table that exists before
 * midnight.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table redemption_attempts (
      attempt_id uuid primary key,
      at timestamptz not null,
      action text not null,
      outcome text not null,
      campaign_id uuid,
      code text,
      code_hash text,
      user_id text,
      device_fp text,
      network text,
      reservation_id uuid
    );
    comment on column redemption_attempts.at is 'by the clock of Redis, as answers are';
    comment on column redemption_attempts.outcome is 'what was answered: a status, or the code of an error';
    comment on column redemption_attempts.code is 'canonical; only of codes that exist';
    comment on column redemption_attempts.code_hash is 'of a code that does not: tells whether two guesses are the same';
    comment on column redemption_attempts.network is 'IPv4 address or IPv6 /64';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
