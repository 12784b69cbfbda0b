import type { Knex } from 'knex';

/**
 * Each attempt to check or use a code, with its outcome, for a limited time. Nothing refers to it and it refers to nothing: a
 * check of references would cost every row, and a log must take what is wrong. Ids are UUIDv7, so the primary key is in the order
 * of writing and what is too old is its beginning. Deleted in batches by the worker, not dropped as partitions: that needs the
 * right to make tables at run time, and at midnight a table that somebody has to have made.
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
