import type { Knex } from 'knex';

/** Regions (decision 49): which one this installation is, and the epochs under which regions have an owner. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table installation add column region text;
    alter table installation add column region_epoch bigint;
    comment on column installation.region is 'the region that this installation is; null = it is the only one. Set by npm run regions -- join';
    comment on column installation.region_epoch is 'grows with each npm run regions -- take-over; the installation with the highest epoch owns the region';

    create table region_epochs (
      region text primary key,
      epoch bigint not null,
      learnt_at timestamptz not null default now()
    );
    comment on table region_epochs is 'the highest epoch of each region that this installation has learnt of. If it is higher than installation.region_epoch for its own region, another installation owns the region';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
