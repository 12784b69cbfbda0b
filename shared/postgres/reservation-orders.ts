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
  byChosen(order: string, product: string | null): Promise<OrderedReservation[]> {
    // The index has this condition.
    return this.#read(
      `select r.redemption_id, c.product_id, r.status from redemptions r join campaigns c using (campaign_id)
       where r.order_id = $1 and (length(r.order_id) <> 28 or r.order_id not like 'ord\\_%')
         and ($2::text is null or c.product_id = $2)
       order by r.redemption_id desc limit ${MOST_READ}`,
      [order, product],
    );
  }

  /**
   * Finds the reservation whose id begins with a prefix, in the campaigns that existed when it was made. Its id ends
   * with the number of its campaign, so each campaign costs one look-up in an index, and a
   * divided one as many as it has buckets.
   * @param prefix the first 28 characters of the id
   * @param madeAtMs when the id was made
   * @throws EngineUnavailable
   */
  byPrefix(prefix: string, madeAtMs: number, product: string | null): Promise<OrderedReservation[]> {
    return this.#read(
      `select r.redemption_id, c.product_id, r.status from campaigns c cross join lateral generate_series(0, c.buckets - 1) as b(bucket) join redemptions r
         on r.campaign_id = c.campaign_id
           and r.redemption_id = ($1 || lpad(to_hex(c.no | (b.bucket << 23)), 8, '0'))::uuid
       where ($2::text is null or c.product_id = $2) and c.created_at < ms($3::bigint) + interval '1 hour'
         and (c.status <> 'closed' or c.updated_at > ms($3::bigint) - interval '1 hour')
       limit ${MOST_READ}`,
      [prefix, product, madeAtMs],
    );
  }

  async #read(sql: string, values: unknown[]): Promise<OrderedReservation[]> {
    const { rows } = await this.database.query<Row>(sql, values);
    return rows.map(({ redemption_id, product_id, status }) => ({
      id: redemption_id as ReservationId,
      product: product_id as ProductId,
      status,
    }));
  }
}
