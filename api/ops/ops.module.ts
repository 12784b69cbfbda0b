import { LIMITS } from '../../shared/config/limits.js';
import { postMetrics } from '../../shared/observability/post-metrics.js';
import { OutboxCursors } from '../../shared/postgres/outbox-cursors.js';
import type { QueueState } from '../../shared/queues/queues.js';
import { MetricsStore } from '../../shared/redis/metrics-store.js';
import { SALE_SCRIPTS } from '../../shared/sale/sale-scripts.js';
import type { ApiShard, Core } from '../core.js';
import type { Limits } from '../guards/limits/limits.module.js';
import type { Route } from '../http/route.js';
import { LiveCampaigns } from './live-campaigns.js';
import { opsRoutes } from './ops.route.js';
import { ReadinessCheck, type ReadinessDeps } from './readiness.js';

/** Health and metrics. @param regions null = this installation is the only one */
export function opsModule(
  core: Core,
  { degradation, policies }: Pick<Limits, 'degradation' | 'policies'>,
  regions: ReadinessDeps['regions'],
): { readiness: ReadinessCheck; routes: Route[] } {
  const { name, config, log, metrics, life, shards, database, clock, queueStates, replica } = core;
  const readiness = new ReadinessCheck({
    shards: shards.all,
    scriptNames: SALE_SCRIPTS.map((script) => script.name),
    database,
    replica,
    journalLimitEntries: config.journalLimitEntries,
    kafka: config.kafka ? new OutboxCursors(database) : null,
    regions,
    queueStates,
    queueJobs: LIMITS.jobs.queueJobs,
    switchedOff: () => degradation.off,
    unsigned: () => (config.payLinkKeys.length > 0 ? [] : policies.signed),
  });
  const store = new MetricsStore(shards.home.commands);
  life.add(
    'posted metrics',
    postMetrics(name, metrics, store, () => clock.nowMs()),
  );
  observeShards(core);
  observeQueues(core);
  const live = shards.all.map(
    ({ sale, commands, clock: shardClock }) =>
      new LiveCampaigns({ reader: sale.reader, redis: commands, clock: shardClock }, LIMITS.metrics.liveCampaigns),
  );
  const readCampaigns = () => allReadable(live, (campaigns) => campaigns.read()).then((found) => found.flat());
  const routes = opsRoutes({ readiness, metrics, store, clock, processName: name, readCampaigns, log });
  return { readiness, routes };
}

/** What of all can be read. */
async function allReadable<Part, Value>(all: readonly Part[], read: (part: Part) => Promise<Value>): Promise<Value[]> {
  const results = await Promise.allSettled(all.map(read));
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

/** Every process sees the same journals, so the largest of what they report is the one. */
function observeShards({ metrics, shards, config }: Core): void {
  const ofEach = (read: (shard: ApiShard) => Promise<number>) => async () =>
    new Map(await allReadable(shards.all, async (shard) => [String(shard.index), await read(shard)] as const));
  metrics.observeEach(
    'journal_backlog_entries',
    'Journal entries of a shard that Postgres has not committed yet; no sample while it cannot be read',
    'shard',
    ofEach(async ({ journal }) => (await journal.backlog()).entries),
    'max',
  );
  metrics.observeEach(
    'journal_oldest_seconds',
    'Age of the oldest of them; no sample while it cannot be read',
    'shard',
    ofEach(async ({ journal, clock }) => {
      const { oldestMs } = await journal.backlog();
      return oldestMs === null ? 0 : Math.max(0, (clock.nowMs() - oldestMs) / 1000);
    }),
    'max',
  );
  metrics.observe(
    'journal_limit_entries',
    'Promises that the journal of a shard may hold (JOURNAL_LIMIT)',
    () => config.journalLimitEntries,
    'max',
  );
  metrics.observe(
    'shards_out_of_service',
    'Shards of Redis whose campaigns get 503, of the process that has most',
    () => shards.all.filter(({ gate }) => !gate.isOpen).length,
    'max',
  );
}

/** Metrics of the queues; no samples while they cannot be read. */
function observeQueues({ metrics, queueStates }: Core): void {
  const states = () => queueStates.get().catch((): QueueState[] => []);
  metrics.observeSamples('queue_jobs', 'Jobs of a queue by state', ['queue', 'state'], async () =>
    (await states()).flatMap(({ queue, waiting, active, delayed, failed }) =>
      Object.entries({ waiting, active, delayed, failed }).map(([state, value]) => ({
        labels: { queue, state },
        value,
      })),
    ),
  );
  metrics.observeSamples('queue_oldest_seconds', 'How long the oldest job of a queue waits', ['queue'], async () =>
    (await states()).map(({ queue, oldestSeconds }) => ({ labels: { queue }, value: oldestSeconds ?? 0 })),
  );
}
