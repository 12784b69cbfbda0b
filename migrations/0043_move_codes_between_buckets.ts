import type { Knex } from 'knex';

/**
 * Transfers of a pool carry codes, with units or alone. Which bucket may give a code follows from its home and its
 * transfers, so a bucket can be restored.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    set local lock_timeout = '5s';
    alter table stock_transfers add column codes integer[];
    alter table stock_transfers drop constraint stock_transfers_units_check;
    alter table stock_transfers add constraint stock_transfers_something
      check (units >= 0 and (units > 0 or coalesce(cardinality(codes), 0) > 0));
    create index stock_transfers_with_codes on stock_transfers (campaign_id, to_bucket) where codes is not null;
    comment on column stock_transfers.codes is 'numbers of the codes that moved (codes.code_no); null = none';
    comment on table stock_transfers is 'units and codes that moved from one bucket to another; without moved_in_at they are on their way';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
