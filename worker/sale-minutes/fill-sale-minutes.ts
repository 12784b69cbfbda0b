import type { Log } from '../../shared/observability/log.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import type { SaleMinutes } from '../../shared/postgres/sale-minutes.js';

export type FillDeps = {
  minutes: Pick<SaleMinutes, 'fill'>;
  /** Keeps writers of the journal out until the transaction ends. */
  lock: (client: Queryable) => Promise<void>;
  log: Log;
  limits: { minutesBatch: number; minutesRunMs: number };
};

/**
 * Counts the minutes of campaigns that are older than the counts, or that a repair has changed, for a bounded time. The
 * next run continues. Between two steps, waiting writers get the lock.
 * @throws EngineUnavailable
 */
export async function fillSaleMinutes({ minutes, lock, log, limits }: FillDeps): Promise<void> {
  const startMs = performance.now();
  for (let steps = 0; ; steps += 1) {
    if (!(await minutes.fill(limits.minutesBatch, lock))) {
      if (steps > 0) log.info({ steps }, 'the minutes of all campaigns were counted');
      return;
    }
    if (performance.now() - startMs > limits.minutesRunMs) return;
  }
}
