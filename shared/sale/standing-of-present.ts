import type { ProductId, ReservationId, UserId } from '../domain/ids.js';
import type { SaleStore } from './sale-store.js';
import type { ShopperStatusOutcome } from './scripts/line.js';

/**
 * Returns the standing of a shopper who is present now. In campaigns that require presence they count as seen, and a
 * demoted shopper gets their position back.
 * @param place reservation id on the caller's ticket; null = none
 * @throws EngineUnavailable when Redis cannot be used
 */
export async function standingOfPresent(
  sale: SaleStore,
  product: ProductId,
  user: UserId,
  place: ReservationId | null,
): Promise<ShopperStatusOutcome> {
  const standing = await sale.line.standing(product, user, place);
  if (standing.kind !== 'standing' || standing.status !== 'queued' || standing.presenceMs === 0) return standing;
  const mayHaveReturned = await sale.line.seen(product, user);
  return mayHaveReturned ? sale.line.standing(product, user, place) : standing;
}
