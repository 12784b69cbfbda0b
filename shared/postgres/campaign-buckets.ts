import { splitUnits } from '../domain/buckets.js';
import type { BucketPart, GivenTransfer } from '../domain/campaign.js';
import type { RowCounters } from './campaigns.js';
import type { Database, Queryable } from './pool.js';

/** Units and codes that have left a bucket and have not arrived in another one. */
export type Transit = { from: number; to: number; out: number; units: number; codes: readonly number[] };
/** Codes that a bucket has got from others, and codes of its own that it has given away, by their numbers. */
export type MovedCodes = { gained: number[]; given: number[] };

type PartRow = {
  total: number | null;
  sealed: boolean;
  held: number;
  redeemed: number;
  burned: number;
  reservations: number;
  moved_out: number;
  arrived: Record<string, number> | null;
  gave: GivenTransfer[] | null;
  last_line_no: number;
};

/** Tables `campaign_buckets` and `stock_transfers`. Batches of the journal write them after the creation. */
export class CampaignBuckets {
  constructor(readonly database: Database) {}

  /** Divides the units of a campaign that the caller's transaction has created. */
  async create(client: Queryable, campaignId: string, total: number | null, buckets: number): Promise<void> {
    await client.query(
      `insert into campaign_buckets (campaign_id, bucket, total)
       select $1, n.position - 1, n.units from unnest($2::bigint[]) with ordinality as n(units, position)`,
      [campaignId, splitUnits(total, buckets)],
    );
  }

  /**
   * A bucket with the counters of its rows, for writing it to Redis. `lastLineNo`: the highest number of the whole
   * line.
   */
  async part(
    campaignId: string,
    bucket: number,
  ): Promise<{ part: BucketPart; counters: RowCounters; lastLineNo: number }> {
    const { rows } = await this.database.query<PartRow>(
      `select b.total::float8 as total, b.held::float8 as held, b.redeemed::float8 as redeemed, b.burned::float8 as burned,
         b.reservations::float8 as reservations,
         exists (select 1 from campaign_buckets o where o.campaign_id = $1 and o.sealed_at is not null) as sealed,
         coalesce((select max(out_no) from stock_transfers t where t.campaign_id = $1 and t.from_bucket = $2), 0)::float8 as moved_out,
         (select json_object_agg(from_bucket, last) from (select from_bucket, max(out_no) as last from stock_transfers t
            where t.campaign_id = $1 and t.to_bucket = $2 and t.moved_in_at is not null group by 1) a) as arrived,
         (select json_agg(json_build_array(out_no, to_bucket, units, array_to_string(codes, ',')) order by out_no) from stock_transfers t
            where t.campaign_id = $1 and t.from_bucket = $2 and (t.moved_in_at is null or not exists (
              select 1 from stock_transfers l where l.campaign_id = $1 and l.from_bucket = $2
                and l.to_bucket = t.to_bucket and l.out_no > t.out_no))) as gave,
         coalesce((select max(line_no) from waiting_tickets t where t.campaign_id = $1), 0)::float8 as last_line_no
       from campaign_buckets b where b.campaign_id = $1 and b.bucket = $2`,
      [campaignId, bucket],
    );
    const [row] = rows;
    if (!row) throw new Error(`campaign ${campaignId} has no bucket ${bucket}`);
    const { total, sealed, moved_out: movedOut, arrived, gave, last_line_no: lastLineNo, ...counters } = row;
    return {
      part: { bucket, total, sealed, movedOut, arrived: arrived ?? {}, gave: gave ?? [] },
      counters,
      lastLineNo,
    };
  }

  /** How many of these transfers have left their bucket, by the journal. */
  async countLeft(campaignId: string, transfers: readonly Pick<Transit, 'from' | 'out'>[]): Promise<number> {
    const { rows } = await this.database.query<{ n: number }>(
      `select count(*)::int as n from unnest($2::int[], $3::bigint[]) as n("from", out)
       join stock_transfers t on t.campaign_id = $1 and t.from_bucket = n."from" and t.out_no = n.out`,
      [campaignId, transfers.map(({ from }) => from), transfers.map(({ out }) => out)],
    );
    return rows[0]?.n ?? 0;
  }

  /** The last transfer of a bucket that has arrived as all before it have; 0 = none. */
  async arrivedUpTo(campaignId: string, bucket: number): Promise<number> {
    const { rows } = await this.database.query<{ last: number }>(
      `select coalesce(min(out_no) filter (where moved_in_at is null) - 1, max(out_no), 0)::float8 as last
       from stock_transfers where campaign_id = $1 and from_bucket = $2`,
      [campaignId, bucket],
    );
    return rows[0]?.last ?? 0;
  }

  /**
   * The transfers that have left their bucket and not arrived, each bucket's in their order; and the units of the
   * campaign.
   */
  async inTransit(campaignId: string): Promise<{ transfers: Transit[]; total: number | null }> {
    const { rows } = await this.database.query<Transit & { total: number | null; from: number | null }>(
      `select c.total_limit::float8 as total, t.from_bucket as "from", t.to_bucket as "to", t.out_no::float8 as out,
         t.units::float8 as units, coalesce(t.codes, '{}') as codes
       from campaigns c left join stock_transfers t on t.campaign_id = c.campaign_id and t.moved_in_at is null
       where c.campaign_id = $1 order by t.out_no`,
      [campaignId],
    );
    const transfers = rows.flatMap(({ total: _total, ...transfer }) => (transfer.from === null ? [] : [transfer]));
    return { transfers, total: rows[0]?.total ?? null };
  }

  /**
   * How the codes of a bucket differ from those at home there. A code may have moved several times. Codes on their way
   * are in no bucket.
   */
  async movedCodes(campaignId: string, bucket: number): Promise<MovedCodes> {
    const { rows } = await this.database.query<{ codes: number[]; gained: boolean }>(
      `select array_agg(code order by code) as codes, times > 0 as gained from (
         select code, sum(time) as times from (
           select unnest(codes) as code, -1 as time from stock_transfers
           where campaign_id = $1 and from_bucket = $2 and codes is not null
           union all
           select unnest(codes), 1 from stock_transfers
           where campaign_id = $1 and to_bucket = $2 and codes is not null and moved_in_at is not null
         ) moved group by code having sum(time) <> 0
       ) net group by times > 0`,
      [campaignId, bucket],
    );
    const codesOf = (gained: boolean) => rows.find((row) => row.gained === gained)?.codes ?? [];
    return { gained: codesOf(true), given: codesOf(false) };
  }
}
