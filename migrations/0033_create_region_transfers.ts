import type { Knex } from 'knex';

/** Units that move between the campaigns of one product in two regions (decision 49). */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table region_transfers (
      transfer_id uuid primary key,
      product_id text not null,
      direction text not null check (direction in ('out', 'in')),
      region text not null,
      units integer not null check (units > 0),
      status text not null check (status in
        ('leaving', 'in_transit', 'arriving', 'arrived', 'refused', 'returning', 'returned', 'stuck')),
      detail text,
      actor text not null,
      created_at timestamptz not null default now(),
      stepped_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    );
    create index region_transfers_by_product on region_transfers (product_id, created_at);
    create index region_transfers_open on region_transfers (updated_at) where status in ('leaving', 'in_transit', 'returning');
    comment on column region_transfers.region is 'the other region';
    comment on column region_transfers.stepped_at is 'when it got its status';
    comment on column region_transfers.status is
      'of the giver: leaving, in_transit, arrived, or returning and returned if the taker refuses; of the taker: arriving, arrived, refused; stuck = an operator has to compare both regions';
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
