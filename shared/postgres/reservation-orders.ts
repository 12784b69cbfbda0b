import type { ProductId, ReservationId } from '../domain/ids.js';
import type { RedemptionStatus } from '../domain/reservation.js';
import type { Database } from './pool.js';

export type OrderedReservation = { id: ReservationId; product: ProductId; status: RedemptionStatus };

/** An order has a few codes; more reservations are ambiguous in any case. */
const MOST_READ = 101;

type Row = { redemption_id: string; product_id: string; status: RedemptionStatus };

/** Finds the reservations of an order in table `redemptions`. */
export class ReservationOrders {
  constructor(readonly database: Database) {}

  /**
   * Finds reservations by an order id that a caller has chosen, newest first.
   * @param product null = of every campaign
   * @throws EngineUnavailable
   */
  async byChosen(order: string, product: string | null): Promise<OrderedReservation[]> {
    // The index has this condition.
    const { rows } = await this.database.query<Row>(
      `select r.redemption_id, c.product_id, r.status from redemptions r join campaigns c using (campaign_id)
       where r.order_id = $1 and (length(r.order_id) <> 36 or r.order_id not like 'ord\\_%')
         and ($2::text is null or c.product_id = $2)
       order by r.redemption_id desc limit ${MOST_READ}`,
      [order, product],
    );
    return rows.map(({ redemption_id, product_id, status }) => ({
      id: redemption_id as ReservationId,
      product: product_id as ProductId,
      status,
    }));
  }
}
