import { FORMAT } from '../../shared/domain/format.js';

/** What all processes agree on: the shards, the journal of each and its histories, and the regions. */
export const JOURNAL = `
  create table installation (
    only_row boolean default true primary key check (only_row),
    shards smallint not null default 1 check (shards >= 1 and shards <= 64),
    map_version bigint not null default 0,
    left_shards smallint,
    region text,
    region_epoch bigint,
    format smallint not null
  );
  comment on table installation is 'what all processes must agree on';
  comment on column installation.format is 'number of the stored formats (shared/domain/format.ts)';
  comment on column installation.shards is 'SHARDS; npm run reshard changes it';
  comment on column installation.map_version is 'grows whenever a campaign moves to another shard';
  comment on column installation.left_shards is 'the number before, until its campaigns have been removed from Redis';
  comment on column installation.region is
    'the region that this installation is; null = it is the only one. Set by npm run regions -- join';
  comment on column installation.region_epoch is
    'grows with each npm run regions -- failover; the installation with the highest epoch owns the region';

  create table journal_cursor (
    last_id text not null,
    updated_at timestamptz not null default now(),
    shard smallint default 0 primary key check (shard >= 0 and shard <= 63)
  );

  create table journal_histories (
    generation bigint primary key,
    server text not null,
    after_id text not null,
    reason text not null,
    begun_at timestamptz not null default now(),
    opened_at timestamptz,
    shard smallint not null default 0
  );
  comment on column journal_histories.server is 'master_replid of the Redis server that was verified';
  comment on column journal_histories.after_id is 'last journal entry of earlier histories that this one contains';
  comment on column journal_histories.opened_at is 'when it went into service; null while it is being recovered';
  create index journal_histories_by_shard on journal_histories (shard, generation);

  create unlogged table journal_processes (
    process_id text primary key,
    kind text not null check (kind in ('api', 'worker')),
    seen_at timestamptz not null,
    generation bigint not null,
    unsaved integer not null,
    serving bigint,
    shard smallint not null default 0,
    map_version bigint not null default 0
  );
  comment on column journal_processes.process_id is 'process, with "/" and the shard except for shard 0';
  comment on column journal_processes.generation is 'latest history for which it has saved what that history lacks';
  comment on column journal_processes.unsaved is 'entries that it still has to save';
  comment on column journal_processes.serving is 'history of the Redis that it uses now; null while it uses none';
  comment on column journal_processes.map_version is 'of the campaigns that moved, as the process knows them';

  create table journal_rejects (
    journal_id text primary key,
    fields jsonb not null,
    reason text not null,
    rejected_at timestamptz not null default now()
  );

  create table recovered_entries (
    journal_id text primary key,
    generation bigint not null,
    number bigint not null,
    fields jsonb not null,
    process_id text not null,
    recovered_at timestamptz not null default now(),
    applied_at timestamptz,
    shard smallint not null default 0
  );
  comment on table recovered_entries is
    'journal entries that Redis lost, saved by the processes that acknowledged them';
  create index recovered_entries_pending on recovered_entries (shard, generation, number) where applied_at is null;

  create table region_epochs (
    region text primary key,
    epoch bigint not null,
    learnt_at timestamptz not null default now()
  );
  comment on table region_epochs is
    'the highest epoch of each region that this installation has learnt of. If it is higher than installation.region_epoch for its own region, another installation owns the region';

  create table region_transfers (
    transfer_id uuid primary key,
    product_id text not null,
    direction text not null check (direction in ('out', 'in')),
    region text not null,
    units integer not null check (units > 0),
    status text not null check (status in ('leaving', 'in_transit', 'arriving', 'arrived', 'refused', 'returning', 'returned', 'stuck')),
    detail text,
    actor text not null,
    created_at timestamptz not null default now(),
    stepped_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
  );
  comment on column region_transfers.region is 'the other region';
  comment on column region_transfers.status is
    'of the giver: leaving, in_transit, arrived, or returning and returned if the taker refuses; of the taker: arriving, arrived, refused; stuck = an operator has to compare both regions';
  comment on column region_transfers.stepped_at is 'when it got its status';
  create index region_transfers_by_product on region_transfers (product_id, created_at);
  create index region_transfers_open on region_transfers (updated_at)
    where status in ('leaving', 'in_transit', 'returning');
  create index region_transfers_done on region_transfers (created_at) where status in ('arrived', 'refused', 'returned');

  create table region_acknowledgements (
    acknowledged_at timestamptz not null,
    acknowledgement_id uuid not null,
    region text not null,
    epoch bigint not null,
    operation text not null,
    reservation_id uuid not null,
    product_id text,
    status text not null,
    qty integer,
    payment_ref text,
    request_id text not null,
    unrecorded integer not null,
    primary key (acknowledged_at, acknowledgement_id)
  );
  comment on table region_acknowledgements is
    'decisions of other regions that this one returned to its clients; after the loss of a region they are compared with its restored database';
  comment on column region_acknowledgements.acknowledged_at is 'by the clock of Redis of this region';
  comment on column region_acknowledgements.region is 'the region that decided';
  comment on column region_acknowledgements.epoch is 'owner epoch of that region';
  comment on column region_acknowledgements.product_id is 'null = this region had not learnt of the campaign yet';
  comment on column region_acknowledgements.qty is 'units that the reservation has, if some were given back';
  comment on column region_acknowledgements.unrecorded is
    'decisions of any region before this one that could not be recorded';

  insert into installation (format) values (${FORMAT});
  insert into journal_cursor (shard, last_id) values (0, '0-0');
`;
