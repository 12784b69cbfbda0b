import { postMetrics } from '../../shared/observability/post-metrics.js';
import { OutboxCursors } from '../../shared/postgres/outbox-cursors.js';
import { MetricsStore } from '../../shared/redis/metrics-store.js';
import { SALE_SCRIPTS } from '../../shared/sale/sale-scripts.js';
import type { Core } from '../core.js';
import type { Route } from '../http/route.js';
import { opsRoutes } from './ops.route.js';
import { ReadinessCheck } from './readiness.js';

/** Health and metrics. */
export function opsModule(core: Core): { readiness: ReadinessCheck; routes: Route[] } {
  const { name, config, log, metrics, life, commands, scripts, gate, database, journal, clock, history } = core;
  const readiness = new ReadinessCheck({
    scripts,
    gate,
    scriptNames: SALE_SCRIPTS.map((script) => script.name),
    database,
    journal,
    clock,
    history,
    journalLimitEntries: config.journalLimitEntries,
    kafka: config.kafka ? new OutboxCursors(database) : null,
  });
  const store = new MetricsStore(commands);
  life.add(
    'posted metrics',
    postMetrics(name, metrics, store, () => clock.nowMs()),
  );
  observeJournal(core);
  return { readiness, routes: opsRoutes({ readiness, metrics, store, clock, processName: name, log }) };
}

/** Every process sees the same journal, so the largest of what they say is the one. */
function observeJournal({ metrics, journal, clock }: Core): void {
  const reading = (read: (backlog: { entries: number; oldestMs: number | null }) => number) => () =>
    journal.backlog().then(read, () => -1);
  metrics.observe(
    'journal_backlog_entries',
    'Journal entries that Postgres has not committed yet; -1 = the journal cannot be read',
    reading(({ entries }) => entries),
    'max',
  );
  metrics.observe(
    'journal_oldest_seconds',
    'Age of the oldest of them; -1 = the journal cannot be read',
    reading(({ oldestMs }) => (oldestMs === null ? 0 : Math.max(0, (clock.nowMs() - oldestMs) / 1000))),
    'max',
  );
}
