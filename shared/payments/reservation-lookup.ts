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
import { MOST_OF_ORDER, type OrderedReservation, type ReservationOrders } from '../postgres/reservation-orders.js';
import type { CampaignDirectory } from '../sale/campaign-directory.js';

/** How a caller names reservations: one by its id, or those of an order, perhaps of one campaign or one user alone. */
export type ReservationName = PaymentName;
/** `ended`: how a reservation of an order has ended that also has others. */
export type Located = { id: ReservationId; campaignNo: CampaignNo; product: ProductId; ended?: 'released' | 'expired' };

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
 * Which reservations of an order are meant beside those that have not ended. `call`: also the latest of each other
 * product, as a call decides about all of the order. `release`: all that have ended, so that a repetition has the same
 * response; but as `call` if something of the order is paid. `payment`: also those that expired, because the payment
 * was for them too. `event`: none, unless all have ended.
 */
type Scope = 'call' | 'release' | 'payment' | 'event';

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
    scope: Scope,
  ): Promise<readonly Located[]> {
    if (reservation_id !== undefined) return [await this.#byId(reservation_id)];
    const product = (product_id as ProductId | undefined) ?? null;
    return this.#byOrder(String(order_id), product, user_id ?? null, scope);
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
   * Looks up an order that a caller has chosen in Postgres, after it has everything that was promised before. An order
   * id that was made here names its reservation, without Postgres.
   */
  async #byOrder(
    order: string,
    product: ProductId | null,
    user: string | null,
    scope: Scope,
  ): Promise<readonly Located[]> {
    const { orders, untilPersisted } = this.deps;
    const made = reservationOfOrder(order);
    if (made) {
      const located = await this.#located(made);
      if (located && (product === null || located.product === product)) return [located];
      throw notFound();
    }
    await untilPersisted(product);
    const all = await orders.byChosen(order, product, user);
    // A code that was refused is not on the order, and must not keep the others from being paid.
    const kept = all.filter(({ isRefused }) => !isRefused);
    const found = kept.length > 0 ? kept : all;
    if (isAmbiguous(found)) throw ambiguous(found);
    const meant = chosen(found, scope);
    if (meant.length === 0) throw notFound();
    return meant
      .map(({ id, product, status }) => ({
        ...{ id, campaignNo: campaignNoOf(id), product },
        ...(meant.length > 1 && (status === 'released' || status === 'expired') ? { ended: status } : {}),
      }))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  }
}

/** Whether several users have an order, or may have it because not all of it was read. */
const isAmbiguous = (found: readonly OrderedReservation[]): boolean =>
  found.length > MOST_OF_ORDER || new Set(found.map(({ user }) => user)).size > 1;

/**
 * Returns the reservations that are meant. Of each product: those that have not ended, else the latest one.
 * @param found newest first
 */
function chosen(found: readonly OrderedReservation[], scope: Scope): OrderedReservation[] {
  const current = found.filter(({ status }) => !ENDED.includes(status));
  const products = new Set(current.map(({ product }) => product));
  const ended = found.filter(({ product, status }) => {
    const isLatest = ENDED.includes(status) && !products.has(product);
    products.add(product);
    return isLatest;
  });
  if (scope === 'release' && current.every(({ status }) => status === 'reserved'))
    return found.filter(({ status }) => status !== 'voided');
  if (scope === 'call' || scope === 'release') return [...current, ...ended];
  const expired = ended.filter(({ status }) => status === 'expired');
  const meant = scope === 'payment' ? [...current, ...expired] : current;
  return meant.length > 0 ? meant : ended;
}

const notFound = () => new Problem('reservation_not_found', 'No reservation has this order id.');

function ambiguous(found: readonly OrderedReservation[]): Problem<'order_ambiguous'> {
  return new Problem('order_ambiguous', 'Several users have this order id, or it has too many reservations.', {
    members: {
      reservations: found.slice(0, 10).map(({ id, product, user }) => ({
        ...{ reservation_id: id, product_id: product, user_id: user },
      })),
    },
  });
}
