import { campaignNoOf, type OrderId, type ReservationId, type UserId } from '../domain/ids.js';
import type { SaleStore } from './sale-store.js';

/** A claim may be freed between two calls by another one that meets it too; three rounds are more than ever happen. */
const TRIES = 3;

/**
 * Asks a script that a reservation on the same order may be in the way of, and asks it again when that one has ended: claims
 * on an order stay until somebody meets them (lua/includes/orders.lua). A conflict that is reported is one of the moment.
 * @param first what the script has replied already
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
