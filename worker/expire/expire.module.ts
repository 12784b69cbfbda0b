import { LIMITS } from '../../shared/config/limits.js';
import { type JobResult, queueOf } from '../../shared/contracts/jobs.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { Core, WorkerShard } from '../core.js';
import { ActiveCampaigns } from './active-campaigns.js';
import { expireOverdue } from './expire.js';
import { maintainLines } from './maintain-lines.js';
import { DeadlineWatch } from './watch-deadlines.js';

/** What runs the jobs of the queue `expire` of one shard. */
export type Expiring = { run: (products: readonly ProductId[]) => Promise<JobResult<'expire'>> };

/** @returns by shard */
export function expireModule({ config, shards, metrics }: Core): Expiring[] {
  const limits =
    config.regions === null ? LIMITS.line : { ...LIMITS.line, lineSettleMs: LIMITS.line.lineSettleOfRegionsMs };
  return shards.all.map(({ sale, log }: WorkerShard) => ({
    async run(products) {
      const ended = await expireOverdue(sale, metrics, log, LIMITS.line, products);
      const tended = await maintainLines(sale, metrics, log, limits, products);
      return { expired: ended.expired, promoted: ended.promoted + tended.promoted, left: tended.left };
    },
  }));
}

/** Adds jobs to the queue `expire` of each shard for as long as the process runs. */
export function deadlinesModule(
  { shards, queues, life, metrics }: Core,
  expiring: readonly Expiring[],
  onFailed: (queue: string, error: unknown) => void,
): void {
  for (const { index, sale, commands, clock, gate } of shards.all) {
    const { run } = expiring[index] as Expiring;
    const watch = new DeadlineWatch({
      active: new ActiveCampaigns(sale.reader, commands),
      clock,
      add: (products) => queues.add('expire', { shard: index, products }, index),
      expire: run,
      inService: () => gate.isOpen,
      onFallback: () => metrics.queueFallbacks.inc({ queue: 'expire' }),
      onFailed: (error) => onFailed(queueOf('expire', index), error),
      limits: LIMITS.line,
    });
    life.add(`deadlines ${index}`, { start: () => watch.start(), quiet: () => watch.stop() });
  }
}
