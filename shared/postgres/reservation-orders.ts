import { campaignOfNumber } from '../domain/buckets.js';
import { campaignNoOf, type ProductId, type ReservationId } from '../domain/ids.js';
import type { RedemptionStatus } from '../domain/reservation.js';
import type { Database } from './pool.js';

/** `isRefused`: it was voided because its code does not combine with another one on the order. */
export type OrderedReservation = {
  id: ReservationId;
  product: ProductId;
  user: string;
  status: RedemptionStatus;
  isRefused: boolean;
};

/** Most reservations of an order that have not ended; one more is read. Each shard allows a hundred. */
export const MOST_OF_ORDER = 1_000;

/**
 * The SQL condition that a caller has chosen the order id of a row: it is not the one that is made from the id of the
 * reservation. Index `redemptions_by_order_id` has this condition, so a query that is to use the index needs it.
 * @param order column with the order id @param id column with the id of the reservation
 */
export const isChosen = (order: string, id: string) => `${order} <> 'ord_' || replace(${id}::text, '-', '')`;

type Row = {
  redemption_id: string;
  product_id: string;
  user_id: string;
  status: RedemptionStatus;
  is_refused: boolean | null;
};

/** Finds the reservations of an order in table `redemptions`. */
export class ReservationOrders {
  constructor(readonly database: Database) {}

  /**
   * Finds the reservations of an order: first those that have not ended, each newest first.
   * @param made the reservation from which the order id is made, if it is. Such an order is its user's: what others
   *   reserve for it is found with their id alone. null = a caller has chosen the order id
   * @param product null = of every campaign @param user null = of every user
   * @throws EngineUnavailable
   */
  async find(
    order: string,
    made: ReservationId | null,
    product: string | null,
    user: string | null,
  ): Promise<OrderedReservation[]> {
    const { rows } = await this.database.query<Row>(
      `with own as (
         select r.* from campaigns a join redemptions r using (campaign_id)
         where a.no = $4 and r.redemption_id = $5::uuid and r.order_id = $1
       ), found as (
         select * from own union all select r.* from redemptions r
         where r.order_id = $1 and ${isChosen('r.order_id', 'r.redemption_id')}
           and ($3::text is not null or not exists (select 1 from own where own.user_id <> r.user_id))
       )
       select r.redemption_id, c.product_id, r.user_id, r.status,
         r.status = 'voided' and r.reason in ('redemptions_one_per_order', 'redemptions_combinable') as is_refused
       from found r join campaigns c using (campaign_id)
       where ($2::text is null or c.product_id = $2) and ($3::text is null or r.user_id = $3)
       order by r.status not in ('reserved', 'redeemed'), r.redemption_id desc limit ${MOST_OF_ORDER + 1}`,
      [order, product, user, made && campaignOfNumber(campaignNoOf(made)), made],
    );
    return rows.map(({ redemption_id, product_id, user_id, status, is_refused }) => ({
      id: redemption_id as ReservationId,
      product: product_id as ProductId,
      user: user_id,
      status,
      isRefused: is_refused === true,
    }));
  }
}
