import { ACTORS } from '../../shared/domain/actors.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { VelocityVerdict } from '../../shared/domain/velocity.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Sales } from '../../shared/sale/sales.js';

export type VelocityAlarmDeps = { sales: Pick<Sales, 'all'>; metrics: Metrics; log: Log };

/**
 * Returns the function that reports a campaign of which far more users than usual got a promise within seconds. The
 * script has paused it, or the bucket that counted them; the other buckets are paused here.
 */
export function velocityAlarm({ sales, metrics, log }: VelocityAlarmDeps) {
  return (product: ProductId, { outcome, users, usual }: VelocityVerdict): void => {
    metrics.velocityAlerts.inc({ outcome });
    log.error({ campaign: product, outcome, users, usual }, 'far more users than usual get promises of a campaign');
    if (outcome !== 'paused') return;
    const stores = sales.all(product);
    if (stores.length === 1) return;
    const reason = `another bucket was paused: ${users} users got their first promise within 5 seconds`;
    for (const { campaigns } of stores) {
      campaigns.setStatus(product, 'pause', ACTORS.velocity, '', reason).catch((error: Error) => {
        // Each bucket watches its own users as well.
        log.warn({ campaign: product, reason: error.message }, 'a bucket of a paused campaign was not paused');
      });
    }
  };
}
