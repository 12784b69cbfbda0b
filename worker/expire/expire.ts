import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';

/**
 * Ends what is overdue in campaigns, closed ones included: their holds end too. Bounded per call;
 * a campaign with more is called again until it has none. Another sweep at the same time only finds less.
 * @param products the campaigns to look at; all that Redis knows by default
 */
export async function expireOverdue(
  sale: SaleStore,
  metrics: Metrics,
  log: Log,
  limits: { sweepBatch: number },
  products?: readonly ProductId[],
): Promise<void> {
  let campaigns = products ?? [...(await sale.reader.directory()).values()];
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
      log.info({ campaign: product, expired: outcome.expired, promoted: outcome.promoted }, 'swept');
      if (outcome.due > 0 || outcome.promoted >= limits.sweepBatch) withMore.push(product);
    }
    campaigns = withMore;
  }
}
