import {
  type CampaignNo,
  campaignNoOf,
  type ProductId,
  parseReservationId,
  type ReservationId,
  reservationOfOrder,
} from '../domain/ids.js';
import { Problem } from '../errors/catalogue.js';
import type { PaymentName } from '../postgres/payment-events.js';
import type { OrderedReservation, ReservationOrders } from '../postgres/reservation-orders.js';
import type { CampaignDirectory } from '../sale/campaign-directory.js';

/** How a caller names reservations: one by its id, or those of an order, perhaps of one campaign or one user alone. */
export type ReservationName = PaymentName;
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

/**
 * `withEnded`: whether an order that has reservations also means those of other products that were released or expired.
 * `isComplete`: whether to wait until Postgres has everything that was promised before, also if one is found at once.
 */
type LookupOptions = { withEnded?: boolean; isComplete?: boolean };

/** States from which a payment, release or refund has no effect any more. */
const ENDED: readonly string[] = ['released', 'expired', 'voided'];

/** Finds the reservations that payment services name. A reservation id costs no round trip for a known campaign. */
export class ReservationLookup {
  constructor(readonly deps: ReservationLookupDeps) {}

  /**
   * @returns the reservation, or those of the order in the order of their ids, never none
   * @throws Problem 404 if there is none, 409 `order_ambiguous` if several users have the order · EngineUnavailable
   */
  async find(
    { reservation_id, order_id, product_id, user_id }: ReservationName,
    options: LookupOptions = {},
  ): Promise<readonly Located[]> {
    if (reservation_id !== undefined) return [await this.#byId(reservation_id)];
    const product = (product_id as ProductId | undefined) ?? null;
    return this.#byOrder(String(order_id), product, user_id ?? null, options);
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
   * that was made here names its reservation, without Postgres.
   */
  async #byOrder(
    order: string,
    product: ProductId | null,
    user: string | null,
    { withEnded = false, isComplete = false }: LookupOptions,
  ): Promise<readonly Located[]> {
    const { orders, untilPersisted } = this.deps;
    const made = reservationOfOrder(order);
    if (made) {
      const located = await this.#located(made);
      if (located && (product === null || located.product === product)) return [located];
      throw notFound();
    }
    const read = async () => chosen(await orders.byChosen(order, product, user), withEnded);
    if (isComplete) await untilPersisted(product);
    let found = await read();
    // The order may have a later reservation.
    if (!isComplete && (found.length !== 1 || found.some(({ status }) => ENDED.includes(status)))) {
      await untilPersisted(product);
      found = await read();
    }
    if (found.length === 0) throw notFound();
    if (new Set(found.map((one) => one.user)).size > 1) throw ambiguous(found);
    return found
      .map(({ id, product }) => ({ id, campaignNo: campaignNoOf(id), product }))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  }
}

/**
 * Returns the reservations that an order can mean. Of each product: those that have not ended, else the latest one.
 * Unless `withEnded`, one that has ended counts only if all have.
 * @param found newest first
 */
function chosen(found: readonly OrderedReservation[], withEnded: boolean): OrderedReservation[] {
  const current = found.filter(({ status }) => !ENDED.includes(status));
  if (!withEnded && current.length > 0) return current;
  const products = new Set(current.map(({ product }) => product));
  const latest = found.filter(({ product, status }) => {
    const isFirst = !products.has(product);
    products.add(product);
    return isFirst && ENDED.includes(status);
  });
  return [...current, ...latest];
}

const notFound = () => new Problem('reservation_not_found', 'No reservation has this order id.');

function ambiguous(found: readonly OrderedReservation[]): Problem<'order_ambiguous'> {
  return new Problem('order_ambiguous', 'Several users have this order id.', {
    members: {
      reservations: found.slice(0, 10).map(({ id, product, user }) => ({
        ...{ reservation_id: id, product_id: product, user_id: user },
      })),
    },
  });
}
