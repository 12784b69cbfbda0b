import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';

/**
 * Expires overdue reservations, those of closed campaigns included. Each call of the script is bounded; a campaign with
 * more overdue reservations is called again until it has none. A second run at the same time does no harm: it finds
 * fewer reservations.
 */
export async function expireOverdue(
  sale: SaleStore,
  metrics: Metrics,
  log: Log,
  limits: { sweepBatch: number },
  products: readonly ProductId[],
): Promise<{ expired: number; promoted: number }> {
  const done = { expired: 0, promoted: 0 };
  let campaigns = products;
  while (campaigns.length > 0) {
    const swept = await Promise.all(
      campaigns.map(async (product) => ({
        product,
        outcome: await sale.reservations.expire(product, limits.sweepBatch),
      })),
    );
    const withMore: ProductId[] = [];
    for (const { product, outcome } of swept) {
      if (outcome.kind === 'not_found' || (outcome.expired === 0 && outcome.promoted === 0)) continue;
      metrics.expired.inc(outcome.expired);
      metrics.promoted.inc(outcome.promoted);
      done.expired += outcome.expired;
      done.promoted += outcome.promoted;
      log.info(
        { campaign: product, expired: outcome.expired, promoted: outcome.promoted },
        'overdue reservations expired',
      );
      if (outcome.due > 0 || outcome.promoted >= limits.sweepBatch) withMore.push(product);
    }
    campaigns = withMore;
  }
  return done;
}
