import type { CampaignId, CampaignNo, ProductId, ReservationId } from '../../shared/domain/ids.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { SellingCampaign } from './fresh-reservations.js';

/** Reservations of a user that are compared with what Redis counts. */
const ACTIVE = 1_000;

/** A place in a line, as Postgres has it. */
export type PlaceRow = {
  campaign_id: CampaignId;
  product_id: string;
  campaign_name: string;
  line_no: string;
  qty: number;
  status: 'waiting' | 'promoted' | 'left' | 'closed';
  reservation_id: string;
  joined_at: Date;
  ended_at: Date | null;
};
export type AttemptRow = {
  at: Date;
  action: string;
  outcome: string;
  product_id: string | null;
  reservation_id: string | null;
};
export type ActionRow = {
  at: Date;
  actor: string;
  action: string;
  product_id: string | null;
  reservation_id: string | null;
  reason: string | null;
};
export type PersonBan = { at: Date; effect: string; until: Date | null; reason: string; actor: string };
export type FurtherPaymentRow = { reservation_id: string; product_id: string; payment_ref: string; paid_at: Date };

/**
 * Reads what Postgres has about one user, over all campaigns. Each read uses an index and returns at most `limit` rows.
 */
export class PersonHistory {
  constructor(readonly database: Database) {}

  /** Places in line, latest first. @param campaignId null = of all campaigns */
  async places(user: string, campaignId: string | null, limit: number): Promise<PlaceRow[]> {
    const ofCampaign = (state: string) =>
      `select t.* from waiting_tickets t where t.campaign_id = a.campaign_id and t.user_id = $1 and t.status ${state} 'waiting'`;
    const { rows } = await this.database.query<PlaceRow>(
      `select t.campaign_id, a.product_id, a.name as campaign_name, t.line_no, t.qty, t.status, t.reservation_id, t.joined_at,
         t.ended_at
       from campaigns a cross join lateral (${ofCampaign('=')} union all ${ofCampaign('<>')}) t
       where $2::uuid is null or a.campaign_id = $2 order by t.joined_at desc, t.line_no desc limit $3`,
      [user, campaignId, limit],
    );
    return rows;
  }

  /** Reservations of the user that take a part of the allowance, in these campaigns. */
  async active(user: string, products: readonly ProductId[]): Promise<ReservationId[]> {
    const { rows } = await this.database.query<{ id: ReservationId }>(
      `select r.redemption_id as id from campaigns c join redemptions r using (campaign_id)
       where c.product_id = any($2) and r.user_id = $1 and (r.status in ('reserved', 'redeemed') or r.burned)
       order by r.redemption_id desc limit $3`,
      [user, products, ACTIVE],
    );
    return rows.map(({ id }) => id);
  }

  async attempts(user: string, limit: number): Promise<AttemptRow[]> {
    const { rows } = await this.database.query<AttemptRow>(
      `select t.at, t.action, t.outcome, c.product_id, t.reservation_id
       from redemption_attempts t left join campaigns c using (campaign_id)
       where t.user_id = $1 order by t.attempt_id desc limit $2`,
      [user, limit],
    );
    return rows;
  }

  /** Actions of operators that concern the user. */
  async actions(user: string, limit: number): Promise<ActionRow[]> {
    const { rows } = await this.database.query<ActionRow>(
      `select a.at, a.actor, a.action, c.product_id, a.after ->> 'reservation_id' as reservation_id,
         a.after ->> 'reason' as reason
       from audit_log a left join campaigns c using (campaign_id)
       where a.after ? 'user_id' and a.after ->> 'user_id' = $1 order by a.audit_id desc limit $2`,
      [user, limit],
    );
    return rows;
  }

  async bans(user: string, limit: number): Promise<PersonBan[]> {
    const { rows } = await this.database.query<PersonBan>(
      `select created_at as at, effect, until, reason, actor from bans where kind = 'user' and subject = $1
       order by ban_id desc limit $2`,
      [user, limit],
    );
    return rows;
  }

  /** Payments of reservations that were paid already. */
  async furtherPayments(reservations: readonly string[]): Promise<FurtherPaymentRow[]> {
    if (reservations.length === 0) return [];
    const { rows } = await this.database.query<FurtherPaymentRow>(
      `select d.reservation_id, c.product_id, d.payment_ref, d.paid_at from duplicate_payments d join campaigns c using (campaign_id)
       where d.reservation_id = any($1::uuid[])`,
      [reservations],
    );
    return rows;
  }

  /** Campaigns that sell now, newest first. `more`: there are others. */
  async selling(limit: number): Promise<{ campaigns: SellingCampaign[]; more: boolean }> {
    const { rows } = await this.database.query<{ no: CampaignNo; product_id: ProductId; name: string }>(
      `select no, product_id, name from campaigns where status in ('open', 'paused') order by no desc limit $1`,
      [limit + 1],
    );
    const campaigns = rows.slice(0, limit).map(({ no, product_id, name }) => ({ no, productId: product_id, name }));
    return { campaigns, more: rows.length > limit };
  }
}
