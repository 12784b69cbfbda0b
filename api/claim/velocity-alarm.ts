import { setTimeout as sleep } from 'node:timers/promises';
import { ACTORS } from '../../shared/domain/actors.js';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { VelocityVerdict } from '../../shared/domain/velocity.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { Sales } from '../../shared/sale/sales.js';

/** How often, and for how long, a bucket that is away is tried again. A failover takes less. */
const RETRY_EVERY_MS = 250;
const RETRY_FOR_MS = 60_000;

export type VelocityAlarmDeps = { sales: Pick<Sales, 'all'>; metrics: Metrics; log: Log };

/**
 * Returns the function that reports a campaign of which far more users than usual got a promise within seconds. The
 * script has paused it, or the bucket that counted them; the other buckets are paused here. Bucket 0, which the others
 * follow (worker/schedule/follow-home.ts), is paused as soon as it is back if it is away.
 */
export function velocityAlarm({ sales, metrics, log }: VelocityAlarmDeps) {
  return (product: ProductId, { outcome, users, usual }: VelocityVerdict): void => {
    metrics.velocityAlerts.inc({ outcome });
    log.error({ campaign: product, outcome, users, usual }, 'far more users than usual get promises of a campaign');
    if (outcome !== 'paused') return;
    const stores = sales.all(product);
    if (stores.length === 1) return;
    const reason = `another bucket was paused: ${users} users got their first promise within 5 seconds`;
    for (const [bucket, store] of stores.entries()) {
      pause(store, product, reason, bucket === FIRST_BUCKET ? RETRY_FOR_MS : 0).catch((error: Error) => {
        // Each bucket watches its own users as well.
        log.warn({ campaign: product, reason: error.message }, 'a bucket of a paused campaign was not paused');
      });
    }
  };
}

/** Pauses a bucket. @param forMs how long it is tried again while the bucket is away */
async function pause({ campaigns }: SaleStore, product: ProductId, reason: string, forMs: number): Promise<void> {
  const until = performance.now() + forMs;
  for (;;) {
    try {
      await campaigns.setStatus(product, 'pause', ACTORS.velocity, '', reason);
      return;
    } catch (error) {
      if (!(error instanceof EngineUnavailable) || performance.now() > until) throw error;
      await sleep(RETRY_EVERY_MS, undefined, { ref: false });
    }
  }
}
