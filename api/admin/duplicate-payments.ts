import type { Database } from '../../shared/postgres/pool.js';

/** A payment of a reservation that was already paid. */
export type DuplicatePaymentRow = {
  reservation_id: string;
  user_id: string;
  order_id: string;
  already_paid_by: string | null;
  payment_ref: string;
  paid_at: Date;
};

/** Reads the table `duplicate_payments`, which the projection of the journal writes. */
export class DuplicatePayments {
  constructor(readonly database: Database) {}

  /** Returns the latest duplicate payments of a campaign, latest first. @throws EngineUnavailable */
  async latest(campaignId: string, limit: number): Promise<DuplicatePaymentRow[]> {
    const { rows } = await this.database.query<DuplicatePaymentRow>(
      `select d.reservation_id, r.user_id, r.order_id, r.payment_ref as already_paid_by, d.payment_ref, d.paid_at
       from duplicate_payments d join redemptions r on r.campaign_id = d.campaign_id and r.redemption_id = d.reservation_id
       where d.campaign_id = $1 order by d.paid_at desc, d.reservation_id, d.payment_ref limit $2`,
      [campaignId, limit],
    );
    return rows;
  }
}
