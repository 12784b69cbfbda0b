import { LRUCache } from 'lru-cache';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { ShopperStatusOutcome } from '../../shared/sale/scripts/line.js';

/**
 * Keeps the standings of waiting users for some seconds, for callers that poll an overloaded process more often than
 * its responses say. One small read still checks that the user waits, so a promotion is never hidden. A user who must
 * be seen is read as ever.
 */
export class StandingSnapshots {
  readonly #kept: LRUCache<string, ShopperStatusOutcome>;

  constructor({ standingsKept, standingKeptMs }: { standingsKept: number; standingKeptMs: number }) {
    this.#kept = new LRUCache({ max: standingsKept, ttl: standingKeptMs });
  }

  /** @throws EngineUnavailable when Redis cannot be used */
  async of(sale: SaleStore, product: ProductId, user: UserId): Promise<ShopperStatusOutcome> {
    const name = `${product}|${user}`;
    const kept = this.#kept.get(name);
    if (kept && (await sale.reader.waits(product, user))) return kept;
    const outcome = await sale.line.standing(product, user, null);
    const isKept = outcome.kind === 'standing' && outcome.status === 'queued' && outcome.presenceMs === 0;
    if (isKept) this.#kept.set(name, outcome);
    else this.#kept.delete(name);
    return outcome;
  }
}
