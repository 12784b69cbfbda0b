import type { ProductId, ReservationId } from '../domain/ids.js';
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

/** Most reservations of an order; one more is read. An order has a few codes. */
export const MOST_OF_ORDER = 100;

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
   * Finds reservations by an order id that a caller has chosen, newest first.
   * @param product null = of every campaign @param user null = of every user
   * @throws EngineUnavailable
   */
  async byChosen(order: string, product: string | null, user: string | null): Promise<OrderedReservation[]> {
    // The index has this condition.
    const { rows } = await this.database.query<Row>(
      `select r.redemption_id, c.product_id, r.user_id, r.status,
         r.status = 'voided' and r.reason in ('redemptions_one_per_order', 'redemptions_combinable') as is_refused
       from redemptions r join campaigns c using (campaign_id)
       where r.order_id = $1 and (length(r.order_id) <> 36 or r.order_id not like 'ord\\_%')
         and ($2::text is null or c.product_id = $2) and ($3::text is null or r.user_id = $3)
       order by r.redemption_id desc limit ${MOST_OF_ORDER + 1}`,
      [order, product, user],
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
