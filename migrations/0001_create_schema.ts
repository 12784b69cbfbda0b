import type { Knex } from 'knex';
import { CAMPAIGNS } from './schema/campaigns.js';
import { CODES } from './schema/codes.js';
import { EVENTS } from './schema/events.js';
import { JOURNAL } from './schema/journal.js';
import { MINUTES } from './schema/minutes.js';
import { OPERATORS } from './schema/operators.js';
import { REDEMPTIONS } from './schema/redemptions.js';

/** The whole schema of 0.2.0. It does not change any more: later changes are migrations of their own. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw([JOURNAL, CAMPAIGNS, CODES, REDEMPTIONS, MINUTES, EVENTS, OPERATORS].join('\n'));
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
