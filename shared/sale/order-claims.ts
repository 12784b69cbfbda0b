import { campaignNoOf, type OrderId, type ProductId, type ReservationId, type UserId } from '../domain/ids.js';
import { keys, saleKeys } from '../redis/keys.js';
import type { SaleCalls } from './sale-calls.js';
import type { SaleReader } from './sale-reader.js';
import { checkOrderClaimScript } from './scripts/checkout.js';

/** A claim may be freed between two calls by another caller; more than three rounds never happen. */
const TRIES = 3;

/** The reservations and places that take part in an order. */
export class OrderClaims {
  constructor(
    readonly calls: SaleCalls,
    readonly reader: SaleReader,
  ) {}

  /**
   * Repeats a call that another reservation on the same order excludes, once that one has ended: claims on an order
   * stay until a caller finds them ended (lua/includes/orders.lua). A returned conflict is thus current.
   * @param first the reply to the first call
   * @returns the last reply; `not_combinable` when a reservation that has not ended excludes this one
   */
  async whileLive<Reply extends { kind: string; reservations?: readonly ReservationId[] }>(
    user: UserId,
    order: OrderId,
    first: Reply,
    ask: () => Promise<Reply>,
  ): Promise<Reply> {
    let reply = first;
    for (let tries = 0; tries < TRIES && reply.kind === 'not_combinable'; tries += 1) {
      const freed = await Promise.all((reply.reservations ?? []).map((id) => this.#isFreed(id, user, order)));
      if (!freed.includes(true)) return reply;
      reply = await ask();
    }
    return reply;
  }

  /** Checks whether a reservation or a place still takes part in its order. Removes the claim of one that has ended. */
  async check(product: ProductId, reservation: ReservationId, user: UserId, order: OrderId) {
    const ask = (unknown: boolean) =>
      this.calls.scripts.run(checkOrderClaimScript, {
        keys: { ...saleKeys(product), order: keys.order(user, order) },
        args: { reservation_id: reservation, user, unknown },
      });
    const outcome = await this.calls.of(product, reservation, async () => {
      const reply = await ask(false);
      return reply.kind === 'archived' && !this.calls.recall ? { kind: 'not_found' as const } : reply;
    });
    return outcome.kind === 'not_found' ? ask(true) : outcome;
  }

  async #isFreed(reservation: ReservationId, user: UserId, order: OrderId): Promise<boolean> {
    const product = await this.reader.productOf(campaignNoOf(reservation));
    if (!product) return false;
    return (await this.check(product, reservation, user, order)).kind === 'freed';
  }
}
