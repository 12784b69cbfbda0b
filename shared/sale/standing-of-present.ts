import type { ProductId, ReservationId, UserId } from '../domain/ids.js';
import type { SaleStore } from './sale-store.js';
import type { ShopperStatusOutcome } from './scripts/line.js';

/**
 * Where a shopper stands who is there at this moment: in campaigns that ask for presence he counts as seen, and comes
 * back to his place if he had stepped back from it.
 * @param place of the ticket that was shown; null = none
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
