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
};

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
] as const satisfies readonly (keyof RedemptionRow)[];

/** Table `redemptions`: written by journal batches, read by operators and by the ledger. */
export class RedemptionsTable {
  constructor(readonly database: Database) {}

  /** A page in the order of their ids, which is the order in which they were made. @param after last id of the page before */
  async page(campaignId: string, limit: number, after: string | null, client: Queryable = this.database): Promise<RedemptionRow[]> {
    const { rows } = await client.query<RedemptionRow>(
      `select ${REDEMPTION_COLUMNS.join(', ')} from redemptions
       where campaign_id = $1 and ($3::uuid is null or redemption_id > $3) order by redemption_id limit $2`,
      [campaignId, limit, after],
    );
    return rows;
  }

  /** Units of the campaign that are held, redeemed or burned, and reservations made in the last `seconds`. */
  async summary(campaignId: string, seconds: number): Promise<{ taken: number; recent: number }> {
    const { rows } = await this.database.query<{ taken: number; recent: string }>(
      `select taken, (select count(*) from redemptions
         where campaign_id = $1 and status <> 'voided' and reserved_at > now() - make_interval(secs => $2)) as recent
       from campaigns where campaign_id = $1`,
      [campaignId, seconds],
    );
    return { taken: rows[0]?.taken ?? 0, recent: Number(rows[0]?.recent ?? 0) };
  }

  /** Writes a refused reservation as `voided`, whether or not it has a row already. */
  async void(
    client: Queryable,
    row: { reservation: string; no: number; user: string; order: string; qty: number; slot: number; atMs: number },
    reason: string,
  ): Promise<void> {
    await client.query(
      `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, released_at, reason)
       select $1::uuid, campaign_id, $3, $4, $5, $6, 'voided', ms($7), now(), $8 from campaigns where no = $2
       on conflict (redemption_id) do update set status = 'voided', released_at = now(), reason = excluded.reason`,
      [row.reservation, row.no, row.user, row.order, row.qty, row.slot, row.atMs, reason],
    );
  }

  async voidExisting(client: Queryable, reservation: string, reason: string): Promise<void> {
    await client.query(
      "update redemptions set status = 'voided', released_at = now(), reason = $2 where redemption_id = $1 and not burned",
      [reservation, reason],
    );
  }
}
