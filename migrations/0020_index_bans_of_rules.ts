import type { Knex } from 'knex';

/**
 * Bans of rules expire and are many: they are read separately from those of operators, and removed when they are old.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`create index bans_of_rules_by_end on bans (until) where actor like 'rule:%'`);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
