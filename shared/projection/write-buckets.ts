import { Batch } from '../postgres/batch.js';
import type { Queryable } from '../postgres/pool.js';
import type { Projection, StockTransfer } from './projection.js';

/**
 * Units arrive in a bucket, and Postgres does not have that they left another one. The entry waits: no order of the
 * journals of two shards may break the cap.
 */
export class TransferNotOut extends Error {
  override readonly name = 'TransferNotOut';
  constructor({ no, from, to, out }: StockTransfer) {
    super(`transfer ${out} of campaign ${no} from bucket ${from} arrived in bucket ${to} before it left`);
  }
}

const TRANSFERS = new Batch({
  ...{ no: 'int', from: 'int', to: 'int', units: 'bigint', out: 'bigint', atMs: 'bigint', codes: 'text' },
});
/** The columns of transfers, with the campaign. */
const GIVEN = `(select n.*, c.campaign_id from ${TRANSFERS.sql} join campaigns c on c.no = n.no) n`;
const valuesOf = (transfers: readonly StockTransfer[]) =>
  TRANSFERS.of(transfers.map((one) => ({ ...one, codes: one.codes.join(',') || null })));

/**
 * Takes units and codes out of their buckets. From now on they are on their way. A transfer that has left stays as it
 * is.
 */
export async function moveOut(client: Queryable, transfers: readonly StockTransfer[]): Promise<void> {
  if (transfers.length === 0) return;
  await client.query(
    `with left_now as (
       insert into stock_transfers (campaign_id, from_bucket, out_no, to_bucket, units, moved_out_at, codes)
       select n.campaign_id, n."from", n.out, n."to", n.units, ms(n.atMs), string_to_array(n.codes, ',')::int[]
       from ${GIVEN}
       on conflict do nothing returning campaign_id, from_bucket, units
     )
     update campaign_buckets b set total = b.total - d.units
     from (select campaign_id, from_bucket, sum(units) as units from left_now group by 1, 2) d
     where b.campaign_id = d.campaign_id and b.bucket = d.from_bucket`,
    valuesOf(transfers),
  );
}

/** Puts units into their buckets. A transfer that has arrived stays as it is. @throws TransferNotOut */
export async function moveIn(client: Queryable, transfers: readonly StockTransfer[]): Promise<void> {
  if (transfers.length === 0) return;
  const { rows } = await client.query<{ no: number; from: number; out: string }>(
    `with arrived as (
       update stock_transfers t set moved_in_at = ms(n.atMs) from ${GIVEN}
       where t.campaign_id = n.campaign_id and t.from_bucket = n."from" and t.out_no = n.out and t.moved_in_at is null
       returning t.campaign_id, t.to_bucket, t.units
     ), added as (
       update campaign_buckets b set total = b.total + d.units
       from (select campaign_id, to_bucket, sum(units) as units from arrived group by 1, 2) d
       where b.campaign_id = d.campaign_id and b.bucket = d.to_bucket
     )
     select n.no, n."from", n.out from ${GIVEN}
     where not exists (select 1 from stock_transfers t
       where t.campaign_id = n.campaign_id and t.from_bucket = n."from" and t.out_no = n.out)`,
    valuesOf(transfers),
  );
  const [missing] = rows;
  const transfer = missing && transfers.find(({ from, out }) => from === missing.from && out === Number(missing.out));
  if (transfer) throw new TransferNotOut(transfer);
}

const UNITS = new Batch({ no: 'int', bucket: 'int', units: 'bigint' });

/** Adds units to buckets, or removes them. Changes nothing for campaigns that are not divided. */
export async function addToBuckets(client: Queryable, added: Projection['addedTo']): Promise<void> {
  if (added.length === 0) return;
  await client.query(
    `update campaign_buckets b set total = b.total + n.units
     from (select no, bucket, sum(units) as units from ${UNITS.sql} group by 1, 2) n join campaigns c on c.no = n.no
     where b.campaign_id = c.campaign_id and b.bucket = n.bucket`,
    UNITS.of(added),
  );
}

const SEALED = new Batch({ no: 'int', bucket: 'int', atMs: 'bigint' });

export async function sealBuckets(client: Queryable, sealed: Projection['sealed']): Promise<void> {
  if (sealed.length === 0) return;
  await client.query(
    `update campaign_buckets b set sealed_at = coalesce(b.sealed_at, ms(n.atMs))
     from ${SEALED.sql} join campaigns c on c.no = n.no
     where b.campaign_id = c.campaign_id and b.bucket = n.bucket`,
    SEALED.of(sealed),
  );
}
