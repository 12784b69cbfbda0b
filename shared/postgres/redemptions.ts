import type { EntryOf } from '../contracts/journal.js';
import type { CampaignStatus, Stock } from '../domain/campaign.js';
import type { RedemptionStatus } from '../domain/reservation.js';
import type { Database, Queryable } from './pool.js';

export type RedemptionRow = {
  redemption_id: string;
  user_id: string;
  order_id: string;
  qty: number;
  status: RedemptionStatus;
  burned: boolean;
  reserved_at: Date;
  pay_before: Date | null;
  redeemed_at: Date | null;
  released_at: Date | null;
  refunded_at: Date | null;
  reason: string | null;
  payment_ref: string | null;
  /** Units that were given back while the reservation kept `qty`. */
  released_qty: number;
  refunded_qty: number;
  burned_qty: number;
};

/** What the order of promises is by. */
export type PromiseAt = Pick<RedemptionRow, 'reserved_at' | 'redemption_id'>;

export const REDEMPTION_COLUMNS = [
  'redemption_id',
  'user_id',
  'order_id',
  'qty',
  'status',
  'burned',
  'reserved_at',
  'pay_before',
  'redeemed_at',
  'released_at',
  'refunded_at',
  'reason',
  'payment_ref',
  'released_qty',
  'refunded_qty',
  'burned_qty',
] as const satisfies readonly (keyof RedemptionRow)[];

/** Units by state; the number of reservations, voided ones included; and the number of voided reservations. */
export type RedemptionSums = { held: number; redeemed: number; burned: number; reservations: number; voided: number };

type StockRow = Stock & { status: CampaignStatus };

/** Table `redemptions`. Journal batches write it; operators and the ledger read it. */
export class RedemptionsTable {
  constructor(readonly database: Database) {}

  /**
   * A page of reservations in the order in which their units were promised. The id alone has another order: a unit
   * that was promised to a user who waited has the id of their place.
   * @param after the last row of the page before
   */
  async page(
    campaignId: string,
    limit: number,
    after: PromiseAt | null,
    client: Queryable = this.database,
  ): Promise<RedemptionRow[]> {
    const { rows } = await client.query<RedemptionRow>(
      `select ${REDEMPTION_COLUMNS.join(', ')} from redemptions
       where campaign_id = $1 and ($3::timestamptz is null or (reserved_at, redemption_id) > ($3, $4::uuid))
       order by reserved_at, redemption_id limit $2`,
      [campaignId, limit, after?.reserved_at ?? null, after?.redemption_id ?? null],
    );
    return rows;
  }

  /** `taken`: units that are held, redeemed or burned. `recent`: reservations made in the last `seconds`. */
  async summary(campaignId: string, seconds: number): Promise<{ taken: number; recent: number }> {
    const { rows } = await this.database.query<{ taken: string; recent: string }>(
      `select taken, (select count(*) from redemptions
         where campaign_id = $1 and status <> 'voided' and reserved_at > now() - make_interval(secs => $2)) as recent
       from campaigns where campaign_id = $1`,
      [campaignId, seconds],
    );
    return { taken: Number(rows[0]?.taken ?? 0), recent: Number(rows[0]?.recent ?? 0) };
  }

  /** Does the same for many campaigns at once. */
  async summaries(
    campaignIds: readonly string[],
    seconds: number,
  ): Promise<ReadonlyMap<string, { taken: number; recent: number }>> {
    const { rows } = await this.database.query<{ campaign_id: string; taken: string; recent: string }>(
      `with made as (select campaign_id, count(*) as recent from redemptions
         where reserved_at > now() - make_interval(secs => $2) and status <> 'voided' group by campaign_id)
       select campaign_id, taken, coalesce(recent, 0) as recent from campaigns left join made using (campaign_id)
       where campaign_id = any($1::uuid[])`,
      [campaignIds, seconds],
    );
    return new Map(
      rows.map(
        ({ campaign_id, taken, recent }) => [campaign_id, { taken: Number(taken), recent: Number(recent) }] as const,
      ),
    );
  }

  /** The counters of a campaign, in the form that Redis returns; null when the campaign is not in Postgres. */
  async stock(campaignId: string, client: Queryable = this.database): Promise<Stock | null> {
    const { rows } = await client.query<StockRow>(
      `select status, total_limit::float8 as total, (total_limit - taken)::float8 as free, held::float8 as held,
         redeemed::float8 as redeemed, burned::float8 as burned,
         (select count(*) from waiting_tickets t where t.campaign_id = c.campaign_id and t.status = 'waiting')::float8 as waiting
       from campaigns c where campaign_id = $1`,
      [campaignId],
    );
    return rows[0] ?? null;
  }

  /**
   * The sums over all rows of a campaign: units and reservations.
   * @param bucket only the rows of this bucket of a divided campaign; null = all
   */
  async sums(campaignId: string, bucket: number | null = null): Promise<RedemptionSums> {
    const { rows } = await this.database.query<RedemptionSums>(
      `select coalesce(sum(qty) filter (where status = 'reserved'), 0)::float8 as held,
         coalesce(sum(qty) filter (where status = 'redeemed'), 0)::float8 as redeemed,
         (coalesce(sum(qty) filter (where burned), 0) + coalesce(sum(burned_qty), 0))::float8 as burned,
         count(*)::float8 as reservations,
         (count(*) filter (where status = 'voided'))::float8 as voided
       from redemptions where campaign_id = $1${bucket === null ? '' : ' and redemption_bucket(redemption_id) = $2'}`,
      bucket === null ? [campaignId] : [campaignId, bucket],
    );
    const [sums] = rows;
    if (!sums) throw new Error('an aggregate has no row');
    return sums;
  }

  /**
   * Finds active rows beyond the limit of their user, as that is at the same moment. Reads the users in the order of an
   * index: Postgres would rather sort all rows, which takes three times as long and 250 MB of disk for ten million.
   */
  duplicates(campaignId: string): Promise<{ redemption_id: string; why: string }[]> {
    const active = `campaign_id = $1 and (status in ('reserved', 'redeemed') or burned)`;
    const limit = '(select per_user_limit from campaigns where campaign_id = $1)';
    return this.database.transaction(async (client) => {
      for (const plan of ['seqscan', 'bitmapscan', 'hashagg', 'sort'])
        await client.query(`set local enable_${plan} = off`);
      const { rows } = await client.query<{ redemption_id: string; why: string }>(
        `with users as (
           select user_id from redemptions where ${active} group by user_id having count(*) > ${limit}
         ), rows as (
           select redemption_id, row_number() over (partition by user_id order by redemption_id) as nth
           from redemptions join users using (user_id) where ${active}
         )
         select redemption_id, 'the user has more than the limit' as why from rows where nth > ${limit}`,
        [campaignId],
      );
      return rows;
    });
  }

  /**
   * Writes a rejected reservation as `voided`, whether or not it has a row already. If it was a promotion, the place in
   * line ends with it: Redis has promoted the user.
   */
  async void(
    client: Queryable,
    row: Pick<
      EntryOf<'reserved'>,
      'reservation' | 'no' | 'user' | 'order' | 'qty' | 'slot' | 'atMs' | 'code' | 'terms' | 'lineNo'
    >,
    reason: string,
  ): Promise<void> {
    await client.query(
      `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, released_at, reason,
         code_no, terms_version, line_no)
       select $1::uuid, campaign_id, $3, $4, $5, $6, 'voided', ms($7), now(), $8, $9, $10, nullif($11::bigint, 0)
       from campaigns where no = $2
       on conflict (campaign_id, redemption_id) do update set status = 'voided', released_at = now(), reason = excluded.reason,
         burned_qty = 0`,
      [
        row.reservation,
        row.no,
        row.user,
        row.order,
        row.qty,
        row.slot,
        row.atMs,
        reason,
        row.code,
        row.terms,
        row.lineNo,
      ],
    );
    if (row.lineNo === 0) return;
    await client.query(
      `update waiting_tickets t set status = 'promoted', ended_at = ms($3) from campaigns c
       where c.no = $1 and t.campaign_id = c.campaign_id and t.line_no = $2 and t.status = 'waiting'`,
      [row.no, row.lineNo, row.atMs],
    );
  }

  async voidExisting(client: Queryable, reservation: string, reason: string): Promise<void> {
    await client.query(
      `update redemptions set status = 'voided', released_at = now(), reason = $2, burned_qty = 0
       where redemption_id = $1 and not burned`,
      [reservation, reason],
    );
  }
}
