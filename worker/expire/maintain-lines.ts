import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';

export type MaintenanceLimits = { tendBatch: number; groupWaitMs: number; lineSettleMs: number };

/**
 * Maintains the line of every campaign (lua/maintain_line.lua): absent users, users who cannot be served, and closed
 * lines. Each call of the script is bounded; a campaign with more to do is called again until nothing is left. A second
 * run at the same time does no harm: it finds less to do.
 */
export async function maintainLines(
  sale: SaleStore,
  metrics: Metrics,
  log: Log,
  limits: MaintenanceLimits,
  products: readonly ProductId[],
): Promise<{ promoted: number; left: number }> {
  const done = { promoted: 0, left: 0 };
  let campaigns = products;
  while (campaigns.length > 0) {
    const tended = await Promise.all(
      campaigns.map(async (product) => ({
        product,
        outcome: await sale.line.maintain(product, limits.tendBatch, limits.groupWaitMs, limits.lineSettleMs),
      })),
    );
    const withMore: ProductId[] = [];
    for (const { product, outcome } of tended) {
      if (outcome.kind === 'not_found') continue;
      const { away, left, closed, promoted } = outcome;
      if (away + left + closed + promoted > 0) {
        metrics.promoted.inc(promoted);
        done.promoted += promoted;
        done.left += left + closed;
        metrics.placesEnded.inc({ why: 'absent' }, left);
        metrics.placesEnded.inc({ why: 'closed' }, closed);
        log.info({ campaign: product, away, left, closed, promoted }, 'the line was maintained');
      }
      if (outcome.more) withMore.push(product);
    }
    campaigns = withMore;
  }
  return done;
}
