import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';

/** Hands out free units to the line until there are no more of either, a batch at a time so that others get their turn. */
export async function promoteWaiting(
  sale: SaleStore,
  metrics: Metrics,
  log: Log,
  product: ProductId,
  limits: { promoteBatch: number },
): Promise<void> {
  for (;;) {
    const outcome = await sale.line.promote(product, limits.promoteBatch);
    if (outcome.kind === 'not_found' || outcome.count === 0) return;
    metrics.promoted.inc(outcome.count);
    log.info({ campaign: product, promoted: outcome.count }, 'promoted');
  }
}
