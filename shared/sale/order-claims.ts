import { campaignNoOf, type OrderId, type ReservationId, type UserId } from '../domain/ids.js';
import type { SaleStore } from './sale-store.js';

/** Another caller may free a claim between two calls. More than three rounds do not happen in practice. */
const TRIES = 3;

/**
 * Repeats a call that other reservations on the same order exclude, once those that have ended are removed: a claim on
 * an order stays until a call checks it (lua/includes/orders.lua). A reported conflict is thus current.
 * @param first reply of the first call
 * @returns the last reply; `not_combinable` when a reservation that has not ended excludes this one
 */
export async function withLiveClaims<Reply extends { kind: string; reservations?: readonly ReservationId[] }>(
  sale: Pick<SaleStore, 'checkOrderClaim' | 'reader'>,
  user: UserId,
  order: OrderId,
  first: Reply,
  ask: () => Promise<Reply>,
): Promise<Reply> {
  let reply = first;
  for (let tries = 0; tries < TRIES && reply.kind === 'not_combinable'; tries += 1) {
    const freed = await Promise.all((reply.reservations ?? []).map((id) => isFreed(sale, id, user, order)));
    if (!freed.includes(true)) return reply;
    reply = await ask();
  }
  return reply;
}

async function isFreed(
  sale: Pick<SaleStore, 'checkOrderClaim' | 'reader'>,
  reservation: ReservationId,
  user: UserId,
  order: OrderId,
): Promise<boolean> {
  const product = await sale.reader.productOf(campaignNoOf(reservation));
  if (!product) return false;
  return (await sale.checkOrderClaim(product, reservation, user, order)).kind === 'freed';
}
