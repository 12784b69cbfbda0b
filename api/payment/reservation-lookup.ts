import {
  type CampaignNo,
  campaignNoOf,
  type ProductId,
  parseReservationId,
  type ReservationId,
  reservationOfOrder,
} from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { OrderedReservation, ReservationOrders } from '../../shared/postgres/reservation-orders.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';

/** How a caller names a reservation: by its id, or by its order and, if several campaigns have it, the product. */
export type ReservationName = {
  reservation_id?: string | undefined;
  order_id?: string | undefined;
  product_id?: string | undefined;
};
export type Located = { id: ReservationId; campaignNo: CampaignNo; product: ProductId };

export type ReservationLookupDeps = {
  directory: CampaignDirectory;
  orders: ReservationOrders;
  /**
   * Resolves when Postgres has every reservation that was made before the call, of one campaign or of all (null).
   * @throws EngineUnavailable if that takes too long
   */
  untilPersisted: (product: ProductId | null) => Promise<void>;
};

/** States from which a payment, release or refund has no effect any more. */
const ENDED: readonly string[] = ['released', 'expired', 'voided'];

/** Finds the reservations that payment services name. A reservation id costs no round trip for a known campaign. */
export class ReservationLookup {
  constructor(readonly deps: ReservationLookupDeps) {}

  /**
   * @throws Problem 404 if there is none, 409 `order_ambiguous` if the order has several · EngineUnavailable
   */
  async find({ reservation_id, order_id, product_id }: ReservationName): Promise<Located> {
    if (reservation_id !== undefined) return this.#byId(reservation_id);
    return this.#byOrder(String(order_id), (product_id as ProductId | undefined) ?? null);
  }

  async #byId(text: string): Promise<Located> {
    const located = await this.#located(text);
    if (!located) throw new Problem('reservation_not_found', 'No reservation has this id.');
    return located;
  }

  async #located(text: string): Promise<Located | null> {
    const parsed = parseReservationId(text);
    const product = parsed && (await this.deps.directory.productOf(parsed.campaignNo));
    return parsed && product ? { ...parsed, product } : null;
  }

  /**
   * Looks up an order that a caller has chosen in Postgres. A reservation that was made a moment ago may be missing
   * there. Then the call waits until Postgres has everything that was promised before, and looks again. An order id
   * that was made here names its reservation.
   */
  async #byOrder(order: string, product: ProductId | null): Promise<Located> {
    const { orders, untilPersisted } = this.deps;
    const made = reservationOfOrder(order);
    if (made) {
      const located = await this.#located(made);
      if (located && (product === null || located.product === product)) return located;
      throw new Problem('reservation_not_found', 'No reservation has this order id.');
    }
    let found = chosen(await orders.byChosen(order, product));
    const [first] = found;
    // The order may have a later reservation.
    if (found.length !== 1 || (first && ENDED.includes(first.status))) {
      await untilPersisted(product);
      found = chosen(await orders.byChosen(order, product));
    }
    const [one, ...others] = found;
    if (!one) throw new Problem('reservation_not_found', 'No reservation has this order id.');
    if (others.length > 0) throw ambiguous(found);
    return { id: one.id, campaignNo: campaignNoOf(one.id), product: one.product };
  }
}

/** Returns the reservations that an order can mean: those that have not ended, else the newest one. */
function chosen(found: readonly OrderedReservation[]): OrderedReservation[] {
  const current = found.filter(({ status }) => !ENDED.includes(status));
  return current.length > 0 ? current : found.slice(0, 1);
}

function ambiguous(found: readonly OrderedReservation[]): Problem<'order_ambiguous'> {
  return new Problem('order_ambiguous', 'Several reservations have this order id.', {
    members: {
      reservations: found.slice(0, 10).map(({ id, product }) => ({ reservation_id: id, product_id: product })),
    },
  });
}
