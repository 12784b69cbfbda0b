import { Batch } from '../../shared/postgres/batch.js';
import type { Transit } from '../../shared/postgres/campaign-buckets.js';
import { CampaignsTable, type StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';

/** A bucket of a divided campaign in Postgres. */
export type BucketRow = {
  no: number;
  bucket: number;
  /** null = unlimited */
  total: number | null;
  held: number;
  redeemed: number;
  burned: number;
  reservations: number;
  /** Number of the last transfer that left it. */
  movedOut: number;
};

/** The rows of all campaigns, of their buckets, and of the transfers that are on their way. */
export type CampaignRows = {
  campaigns: readonly StoredCampaign[];
  buckets: readonly BucketRow[];
  transit: readonly (Transit & { no: number })[];
};

/** A transfer that Postgres lacks, and whether it has arrived. */
export type LostTransfer = Transit & { hasArrived: boolean };

const TRANSFERS = new Batch({
  ...{ from: 'int', out: 'bigint', to: 'int', units: 'bigint', hasArrived: 'boolean', codes: 'text' },
});
const ARRIVED = new Batch({ from: 'int', out: 'bigint' });

/**
 * Reads the rows as the caller's transaction has them.
 * @param client of that transaction
 */
export async function readRows(database: Database, client: Queryable): Promise<CampaignRows> {
  const campaigns = await new CampaignsTable(database).toRestore(client);
  const buckets = await client.query<BucketRow>(
    `select c.no, b.bucket, b.total::float8 as total, b.held::float8 as held, b.redeemed::float8 as redeemed,
       b.burned::float8 as burned, b.reservations::float8 as reservations,
       coalesce((select max(out_no) from stock_transfers t
         where t.campaign_id = b.campaign_id and t.from_bucket = b.bucket), 0)::float8 as "movedOut"
     from campaign_buckets b join campaigns c using (campaign_id) order by c.no, b.bucket`,
  );
  const transit = await client.query<Transit & { no: number }>(
    `select c.no, t.from_bucket as "from", t.to_bucket as "to", t.out_no::float8 as out, t.units::float8 as units,
       coalesce(t.codes, '{}') as codes
     from stock_transfers t join campaigns c using (campaign_id) where t.moved_in_at is null order by t.out_no`,
  );
  return { campaigns, buckets: buckets.rows, transit: transit.rows };
}

/** Writes the units of each bucket of a campaign, also of those that Postgres lacks. */
export async function setTotals(client: Queryable, no: number, totals: readonly (number | null)[]): Promise<void> {
  await client.query(
    `insert into campaign_buckets as b (campaign_id, bucket, total)
     select c.campaign_id, n.position - 1, n.units
     from campaigns c, unnest($2::bigint[]) with ordinality as n(units, position) where c.no = $1
     on conflict (campaign_id, bucket) do update set total = excluded.total
       where b.total is distinct from excluded.total`,
    [no, totals],
  );
}

/** Writes transfers that Postgres lacks. Their times are lost. */
export async function insertTransfers(
  client: Queryable,
  no: number,
  transfers: readonly LostTransfer[],
): Promise<void> {
  await client.query(
    `insert into stock_transfers (campaign_id, from_bucket, out_no, to_bucket, units, moved_out_at, moved_in_at, codes)
     select c.campaign_id, n."from", n.out, n."to", n.units, now(), case when n.hasArrived then now() end,
       string_to_array(n.codes, ',')::int[]
     from campaigns c, ${TRANSFERS.sql} where c.no = $${TRANSFERS.count + 1}`,
    [...TRANSFERS.of(transfers.map((one) => ({ ...one, codes: one.codes.join(',') || null }))), no],
  );
}

/** Ends transfers that Postgres has as on their way, and that have arrived. */
export async function endTransfers(client: Queryable, no: number, transfers: readonly Transit[]): Promise<void> {
  await client.query(
    `update stock_transfers t set moved_in_at = now() from ${ARRIVED.sql}, campaigns c
     where c.no = $${ARRIVED.count + 1} and t.campaign_id = c.campaign_id and t.from_bucket = n."from" and t.out_no = n.out
       and t.moved_in_at is null`,
    [...ARRIVED.of(transfers), no],
  );
}
