import type { Transit } from '../../shared/postgres/campaign-buckets.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Queryable } from '../../shared/postgres/pool.js';

/** A bucket of a divided campaign in Postgres. */
export type BucketRow = {
  no: number;
  bucket: number;
  /** null = unlimited */
  total: number | null;
  held: number;
  redeemed: number;
  burned: number;
  sealed: boolean;
  /** Number of the last transfer that left it. */
  movedOut: number;
};

/** The rows of all campaigns and of their buckets, before the repair. */
export type CampaignRows = { campaigns: readonly StoredCampaign[]; buckets: readonly BucketRow[] };

/** A transfer that Postgres lacks, and whether it has arrived. */
export type LostTransfer = Transit & { hasArrived: boolean };

/** Repairs the buckets of divided campaigns, and the transfers between them, in the caller's transaction. */
export class RestoredBuckets {
  constructor(readonly client: Queryable) {}

  /** The buckets of all divided campaigns. */
  async all(): Promise<BucketRow[]> {
    const { rows } = await this.client.query<BucketRow>(
      `select c.no, b.bucket, b.total::float8 as total, b.held::float8 as held, b.redeemed::float8 as redeemed,
         b.burned::float8 as burned, b.sealed_at is not null as sealed,
         coalesce((select max(out_no) from stock_transfers t
           where t.campaign_id = b.campaign_id and t.from_bucket = b.bucket), 0)::float8 as "movedOut"
       from campaign_buckets b join campaigns c using (campaign_id) order by c.no, b.bucket`,
    );
    return rows;
  }

  /** The transfers of all campaigns that are on their way. */
  async inTransit(): Promise<(Transit & { no: number })[]> {
    const { rows } = await this.client.query<Transit & { no: number }>(
      `select c.no, t.from_bucket as "from", t.to_bucket as "to", t.out_no::float8 as out, t.units::float8 as units,
         coalesce(t.codes, '{}') as codes
       from stock_transfers t join campaigns c using (campaign_id) where t.moved_in_at is null order by t.out_no`,
    );
    return rows;
  }

  /**
   * Divides a campaign that was created again.
   * @param totals units of each bucket
   */
  async create(no: number, totals: readonly (number | null)[]): Promise<void> {
    await this.client.query('update campaigns set buckets = $2 where no = $1', [no, totals.length]);
    await this.client.query(
      `insert into campaign_buckets (campaign_id, bucket, total)
       select c.campaign_id, n.position - 1, n.units
       from campaigns c, unnest($2::bigint[]) with ordinality as n(units, position) where c.no = $1`,
      [no, totals],
    );
  }

  async setTotals(no: number, totals: readonly (readonly [bucket: number, total: number | null])[]): Promise<void> {
    await this.client.query(
      `update campaign_buckets b set total = n.total from unnest($2::int[], $3::bigint[]) as n(bucket, total), campaigns c
       where c.no = $1 and b.campaign_id = c.campaign_id and b.bucket = n.bucket`,
      [no, totals.map(([bucket]) => bucket), totals.map(([, total]) => total)],
    );
  }

  /** Writes that the units of these buckets go to the line only. */
  async seal(no: number, buckets: readonly number[]): Promise<void> {
    await this.client.query(
      `update campaign_buckets b set sealed_at = now() from campaigns c
       where c.no = $1 and b.campaign_id = c.campaign_id and b.bucket = any($2::int[]) and b.sealed_at is null`,
      [no, buckets],
    );
  }

  /** Writes transfers that Postgres lacks. Their times are lost. */
  async insertTransfers(no: number, transfers: readonly LostTransfer[]): Promise<void> {
    await this.client.query(
      `insert into stock_transfers (campaign_id, from_bucket, out_no, to_bucket, units, moved_out_at, moved_in_at, codes)
       select c.campaign_id, n."from", n.out, n."to", n.units, now(), case when n.arrived then now() end,
         string_to_array(n.codes, ',')::int[]
       from campaigns c, unnest($2::int[], $3::bigint[], $4::int[], $5::bigint[], $6::boolean[], $7::text[])
         as n("from", out, "to", units, arrived, codes)
       where c.no = $1`,
      [
        no,
        transfers.map(({ from }) => from),
        transfers.map(({ out }) => out),
        transfers.map(({ to }) => to),
        transfers.map(({ units }) => units),
        transfers.map(({ hasArrived }) => hasArrived),
        transfers.map(({ codes }) => (codes.length > 0 ? codes.join(',') : null)),
      ],
    );
  }

  /** Ends transfers that Postgres has as on their way, and that have arrived. */
  async endTransfers(no: number, transfers: readonly Transit[]): Promise<void> {
    await this.client.query(
      `update stock_transfers t set moved_in_at = now() from unnest($2::int[], $3::bigint[]) as n("from", out), campaigns c
       where c.no = $1 and t.campaign_id = c.campaign_id and t.from_bucket = n."from" and t.out_no = n.out
         and t.moved_in_at is null`,
      [no, transfers.map(({ from }) => from), transfers.map(({ out }) => out)],
    );
  }
}
