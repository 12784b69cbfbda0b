import { type OrderId, orderIdOf, type ProductId, type ReservationId, type UserId } from '../../shared/domain/ids.js';
import { COMBINES } from '../../shared/domain/stacking.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { ShardMap } from '../../shared/shards/shard-map.js';
import type { Acknowledged, Acknowledgements } from './acknowledgement.js';

/** A unit that was claimed, with the part of the script's reply that decides how long its response is held. */
export type Claimed = Acknowledged & { product: ProductId; bucket: number; reservationId: string };

/**
 * Holds the response to a claim that Postgres may still refuse until it has decided. Postgres refuses a redemption when
 * another code that excludes it is on the order, which Redis cannot know in two cases: the other code is in another
 * shard, or Redis no longer has the order. A refused reservation is voided in Redis before the commit passes it, so a
 * response that has waited for the commit and finds the reservation in force stays true.
 */
export class CommittedClaims {
  constructor(
    readonly sales: Pick<Sales, 'of'>,
    readonly acknowledgements: Acknowledgements,
    readonly map: Pick<ShardMap, 'count' | 'mayExclude'>,
  ) {}

  /**
   * Whether a claim waits for the commit, also with `confirmation: fast`. A code that combines waits only where the
   * code of another shard may exclude it.
   * @param stacking of the reservation on its order; "" = it takes no part in an order
   */
  mustWait(stacking: string): boolean {
    if (this.map.count === 1 || stacking === '') return false;
    return stacking !== COMBINES || this.map.mayExclude;
  }

  /** Whether a repeated claim waits: its idempotency record does not contain the stacking. */
  async mustWaitAgain(product: ProductId, bucket: number, reservationId: string, user: UserId, order: OrderId | null) {
    if (this.map.count === 1) return false;
    const { reader } = this.sales.of(product, bucket);
    const stacking = await reader.stackingOn(user, order ?? orderIdOf(reservationId), reservationId as ReservationId);
    return this.mustWait(stacking);
  }

  /**
   * Resolves when Postgres has the reservation and it is in force.
   * @throws EngineUnavailable if the commit takes too long; the promise is kept, and a retry gets the response
   * @throws Problem 409 if Postgres has refused the reservation
   */
  async committed(claimed: Claimed): Promise<void> {
    const { product, bucket, reservationId, durable, journalId } = claimed;
    await this.acknowledgements.held(product, { durable: true, journalId }, bucket);
    const records = await this.sales.of(product, bucket).reader.reservationsById(product, [reservationId]);
    if (records.get(reservationId)?.state !== 'voided') return;
    if (durable) throw new Problem('reservation_voided', 'The database rejected the claim. No unit is held.');
    throw new Problem('not_combinable', 'The order contains a code that cannot be combined with this one.');
  }
}
