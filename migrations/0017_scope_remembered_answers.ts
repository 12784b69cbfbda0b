import type { Knex } from 'knex';

/**
 * Idempotency keys belong to their user: the primary key of a remembered answer is `user|key` from now on. It stays one
 * text column, because workers of the version before go on writing rows, and name it in `on conflict`, while they are
 * replaced. Their rows hold the key alone; both forms are read.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    comment on column remembered_answers.idempotency_key is
      'user|key; |key of an operator; only the key in rows of earlier versions, whose user is the third field of the answer';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
