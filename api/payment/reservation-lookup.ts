import {
  type CampaignNo,
  campaignNoOf,
  madeAtMs,
  type ProductId,
  parseReservationId,
  prefixOfOrder,
  type ReservationId,
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
    const parsed = parseReservationId(text);
    const product = parsed && (await this.deps.directory.productOf(parsed.campaignNo));
    if (!parsed || !product) throw new Problem('reservation_not_found', 'No reservation has this id.');
    return { ...parsed, product };
  }

  /**
   * Looks up an order in Postgres. A reservation that was made a moment ago may be missing there. Then the call waits
   * until Postgres has everything that was promised before, and looks again.
   */
  async #byOrder(order: string, product: ProductId | null): Promise<Located> {
    const prefix = prefixOfOrder(order);
    let found = chosen(await this.#read(order, prefix, product));
    const [first] = found;
    // An order id that a caller has chosen may have a later reservation.
    const mayHaveMore = prefix === null && first !== undefined && ENDED.includes(first.status);
    if (found.length !== 1 || mayHaveMore) {
      await this.deps.untilPersisted(product);
      found = chosen(await this.#read(order, prefix, product));
    }
    const [one, ...others] = found;
    if (!one) throw new Problem('reservation_not_found', 'No reservation has this order id.');
    if (others.length > 0) throw ambiguous(found);
    return { id: one.id, campaignNo: campaignNoOf(one.id), product: one.product };
  }

  /** @param prefix prefix of the reservation id in the order id; null = a caller has chosen the order id */
  #read(order: string, prefix: string | null, product: ProductId | null): Promise<OrderedReservation[]> {
    const { orders } = this.deps;
    return prefix === null ? orders.byChosen(order, product) : orders.byPrefix(prefix, madeAtMs(prefix), product);
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
