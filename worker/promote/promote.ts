import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';

/**
 * Promotes waiting users until no unit is free or no user waits. Works in batches, so that other calls to Redis can run
 * in between.
 */
export async function promoteWaiting(
  sale: SaleStore,
  metrics: Metrics,
  log: Log,
  product: ProductId,
  limits: { promoteBatch: number },
): Promise<{ promoted: number }> {
  let promoted = 0;
  for (;;) {
    const outcome = await sale.line.promote(product, limits.promoteBatch);
    if (outcome.kind === 'not_found' || outcome.count === 0) return { promoted };
    promoted += outcome.count;
    metrics.promoted.inc(outcome.count);
    log.info({ campaign: product, promoted: outcome.count }, 'waiting users promoted');
  }
}
