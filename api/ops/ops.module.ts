import { postMetrics } from '../../shared/observability/post-metrics.js';
import { OutboxCursors } from '../../shared/postgres/outbox-cursors.js';
import { MetricsStore } from '../../shared/redis/metrics-store.js';
import { SALE_SCRIPTS } from '../../shared/sale/sale-scripts.js';
import type { ApiShard, Core } from '../core.js';
import type { Route } from '../http/route.js';
import { opsRoutes } from './ops.route.js';
import { ReadinessCheck } from './readiness.js';

/** Health and metrics. */
export function opsModule(core: Core): { readiness: ReadinessCheck; routes: Route[] } {
  const { name, config, log, metrics, life, shards, database, clock } = core;
  const readiness = new ReadinessCheck({
    shards: shards.all,
    scriptNames: SALE_SCRIPTS.map((script) => script.name),
    database,
    journalLimitEntries: config.journalLimitEntries,
    kafka: config.kafka ? new OutboxCursors(database) : null,
  });
  const store = new MetricsStore(shards.home.commands);
  life.add(
    'posted metrics',
    postMetrics(name, metrics, store, () => clock.nowMs()),
  );
  observeJournal(core);
  return { readiness, routes: opsRoutes({ readiness, metrics, store, clock, processName: name, log }) };
}

/** Every process sees the same journals, so the largest of what they say is the one. */
function observeJournal({ metrics, shards }: Core): void {
  const readable = async <Value>(read: (shard: ApiShard) => Promise<Value>): Promise<Value[]> => {
    const results = await Promise.allSettled(shards.all.map(read));
    return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  };
  metrics.observe(
    'journal_backlog_entries',
    'Journal entries that Postgres has not committed yet, in the shards that can be read; -1 = none can',
    async () => {
      const backlogs = await readable(({ journal }) => journal.backlog());
      return backlogs.length === 0 ? -1 : backlogs.reduce((sum, { entries }) => sum + entries, 0);
    },
    'max',
  );
  metrics.observe(
    'journal_oldest_seconds',
    'Age of the oldest of them; -1 = no journal can be read',
    async () => {
      const ages = await readable(async ({ journal, clock }) => {
        const { oldestMs } = await journal.backlog();
        return oldestMs === null ? 0 : Math.max(0, (clock.nowMs() - oldestMs) / 1000);
      });
      return Math.max(-1, ...ages);
    },
    'max',
  );
}
