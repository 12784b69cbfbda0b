import { bucketOfReservation } from '../domain/buckets.js';
import {
  type CampaignNo,
  campaignNoOf,
  madeAtMs,
  type OrderId,
  type ProductId,
  parseReservationId,
  type ReservationId,
  reservationOfOrder,
  type UserId,
} from '../domain/ids.js';
import { Problem } from '../errors/catalogue.js';
import { EngineUnavailable } from '../errors/faults.js';
import { isPseudonym } from '../postgres/erasures.js';
import type { PaymentName } from '../postgres/payment-events.js';
import { MOST_OF_ORDER, type OrderedReservation, type ReservationOrders } from '../postgres/reservation-orders.js';
import type { CampaignDirectory } from '../sale/campaign-directory.js';
import type { ReservationRecord } from '../sale/reservation-record.js';
import type { Sales } from '../sale/sales.js';

/** How a caller names reservations: one by its id, or those of an order, perhaps of one campaign or one user alone. */
export type ReservationName = PaymentName;
/**
 * `ended`: how a reservation of an order has ended that also has others. `mayHaveOthers`: its order may have others,
 * which are not known.
 */
export type Located = {
  id: ReservationId;
  campaignNo: CampaignNo;
  product: ProductId;
  ended?: 'released' | 'expired';
  mayHaveOthers?: true;
};

/**
 * What was found. `missing`: why not all of it is known; then the caller decides those that are, so that their units
 * do not expire meanwhile, and throws it, so that a repetition decides the others. null = it is all.
 */
export type Found = { reservations: readonly Located[]; missing: EngineUnavailable | null };

export type ReservationLookupDeps = {
  directory: CampaignDirectory;
  sales: Pick<Sales, 'of' | 'stores'>;
  orders: ReservationOrders;
  /** How long Redis has the claims on an order. */
  orderMemoryMs: number;
  /** Milliseconds since the epoch. */
  nowMs: () => number;
  /**
   * Resolves when Postgres has every reservation that was made before the call, of one campaign or of all (null).
   * @throws EngineUnavailable if that takes too long
   */
  untilPersisted: (product: ProductId | null) => Promise<void>;
};

/** Order ids that were made here are looked up in Postgres a day before Redis may forget what claims them. */
const BEFORE_FORGOTTEN_MS = 86_400_000;

/**
 * Which reservations of an order are meant beside those that have not ended. `call`: also the latest of each other
 * product, as a call decides about all of the order. `release`: all that have ended, so that a repetition has the same
 * response; but as `call` if something of the order is paid. `event`: none, unless all have ended.
 */
type Scope = 'call' | 'release' | 'event';

/** States from which a payment, release or refund has no effect any more. */
const ENDED: readonly string[] = ['released', 'expired', 'voided'];

/** Finds the reservations that payment services name. A reservation id costs no round trip for a known campaign. */
export class ReservationLookup {
  constructor(readonly deps: ReservationLookupDeps) {}

  /**
   * @returns the reservation, or those of the order in the order of their ids, never none
   * @throws Problem 404 if there is none, 409 `order_ambiguous` if several users have the order · EngineUnavailable
   */
  async find({ reservation_id, order_id, product_id, user_id }: ReservationName, scope: Scope): Promise<Found> {
    if (reservation_id !== undefined) return { reservations: [await this.#byId(reservation_id)], missing: null };
    const [order, product, user] = [String(order_id), (product_id ?? null) as ProductId | null, user_id ?? null];
    const made = reservationOfOrder(order);
    const own = made && (await this.#located(made));
    const isOfProduct = own !== null && (product ?? own.product) === own.product;
    let isOfUser = user === null;
    try {
      const record = own && (await this.#recordOf(own));
      isOfUser ||= record?.user === user;
      if (isOfProduct && isOfUser && (await this.#isAlone(own, record, order as OrderId)))
        return { reservations: [own], missing: null };
      return { reservations: await this.#byOrder(order, own, product, user, scope), missing: null };
    } catch (error) {
      if (!isOfProduct || !isOfUser || !(error instanceof EngineUnavailable)) throw error;
      return { reservations: [{ ...own, mayHaveOthers: true }], missing: error };
    }
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

  async #recordOf({ id, product }: Located): Promise<ReservationRecord | null> {
    const { reader } = this.deps.sales.of(product, bucketOfReservation(id));
    return (await reader.reservationsById(product, [id])).get(id) ?? null;
  }

  /**
   * Whether Redis proves that an order has no other reservation than the one from which its id is made. Most have none,
   * and then Postgres is neither read nor waited for.
   * @throws EngineUnavailable
   */
  async #isAlone({ id }: Located, record: ReservationRecord | null, order: OrderId): Promise<boolean> {
    const { sales, nowMs, orderMemoryMs } = this.deps;
    const user = record?.user as UserId;
    // An erasure removes the claims of a user.
    if (record?.orderId !== order || isPseudonym(user)) return false;
    if (madeAtMs(id) < nowMs() - orderMemoryMs + BEFORE_FORGOTTEN_MS) return false;
    const claims = await Promise.all(sales.stores.map((store) => store.reader.claimsOn(user, order)));
    return claims.every((ids) => [...ids.keys()].every((claimed) => claimed === id));
  }

  /**
   * Looks up an order in Postgres, after it has everything that was promised before.
   * @param own the reservation from which the order id is made; null = a caller has chosen the order id
   */
  async #byOrder(
    order: string,
    own: Located | null,
    product: ProductId | null,
    user: string | null,
    scope: Scope,
  ): Promise<readonly Located[]> {
    const { orders, untilPersisted } = this.deps;
    await untilPersisted(product);
    // The row of the checkout says whose order it is.
    if (own && product !== null && product !== own.product) await untilPersisted(own.product);
    const all = await orders.find(order, own?.id ?? null, product, user);
    // Rows of old campaigns are dropped; their scripts say so.
    if (own && all.length === 0 && user === null && (product ?? own.product) === own.product) return [own];
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
  found.filter(({ status }) => !ENDED.includes(status)).length > MOST_OF_ORDER ||
  new Set(found.map(({ user }) => user)).size > 1;

/**
 * Returns the reservations that are meant. Of each product: those that have not ended, else the latest one.
 * @param found each state newest first
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
  return current.length > 0 ? current : ended;
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
