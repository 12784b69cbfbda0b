import type { Knex } from 'knex';

/** What one operator or key did. The log has operators' actions only, so the index is small. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
    create index audit_log_by_actor on audit_log (actor, audit_id);
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
