import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { uuidv7 } from 'uuidv7';
import { ArchiveRecall } from '../shared/archive/archive-recall.js';
import type { Config } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { projectRoot } from '../shared/config/project-root.js';
import { connectDatastores, type OpenPool } from '../shared/datastores/connect.js';
import { createHistoryGate } from '../shared/history/history-gate.js';
import type { HistoryWatch } from '../shared/history/history-watch.js';
import { endsWithItsConnection, type Lifecycle } from '../shared/observability/lifecycle.js';
import type { Log } from '../shared/observability/log.js';
import { Metrics } from '../shared/observability/metrics.js';
import { ArchivedPeople } from '../shared/postgres/archived-people.js';
import type { Database } from '../shared/postgres/pool.js';
import { CommitWatermark } from '../shared/redis/commit-watermark.js';
import type { RedisConnections } from '../shared/redis/connections.js';
import type { RedisGate } from '../shared/redis/gate.js';
import { Journal } from '../shared/redis/journal.js';
import { RedisClock } from '../shared/redis/redis-clock.js';
import { redisProblems } from '../shared/redis/redis-requirements.js';
import { ScriptRunner } from '../shared/redis/script-runner.js';
import { CampaignArchive } from '../shared/sale/campaign-archive.js';
import { CampaignDirectory } from '../shared/sale/campaign-directory.js';
import { SaleStore } from '../shared/sale/sale-store.js';
import type { UnpersistedPromises } from '../shared/sale/unpersisted-promises.js';

/** Responses that may wait for Postgres at once; more would only wait longer than their time limit. */
const MAX_DURABLE_WAITING = 20_000;

/** What every module of the API may use: the process, its datastores, and the sale in them. */
export type Core = {
  /** Unique to this process. */
  name: string;
  config: Config;
  log: Log;
  metrics: Metrics;
  life: Lifecycle;
  redis: RedisConnections;
  commands: Redis;
  subscriber: Redis;
  gate: RedisGate;
  clock: RedisClock;
  scripts: ScriptRunner;
  journal: Journal;
  commits: CommitWatermark;
  history: HistoryWatch;
  database: Database;
  /** For statements that others must not wait behind. */
  openPool: OpenPool;
  sale: SaleStore;
  directory: CampaignDirectory;
};

/** Watches the memory of Redis: see MemoryGuard. */
type MemoryWatch = { readonly full: boolean; observe(info: ReadonlyMap<string, string>): void };

/** Connects one API process to Redis and Postgres; neither has to be there yet. */
export function connect(config: Config, log: Log, life: Lifecycle, memory: MemoryWatch): Core {
  const name = `api-${process.pid}-${uuidv7().slice(-6)}`;
  const metrics = new Metrics();
  const { redis, openPool } = connectDatastores(config, log, life, () => metrics.engineErrors.inc({ engine: 'redis' }));
  const [commands, subscriber] = [redis.forCommands(), redis.forSubscription()];
  const database = openPool({
    name: 'doorbuster-api',
    connections: 10,
    statementMs: LIMITS.postgresStatementMs,
    onError: (error) => log.warn({ reason: error.message }, 'Postgres is away'),
  });
  const commits = new CommitWatermark(subscriber, MAX_DURABLE_WAITING);
  const { gate, watch, promises } = createHistoryGate({
    processId: name,
    kind: 'api',
    redis: commands,
    // A pool of its own: its reports tell a worker that this process is alive.
    database: openPool({ name: 'doorbuster-api-history', connections: 2, statementMs: LIMITS.postgresStatementMs }),
    commits,
    shape: () => redisProblems(commands, config.production, config.waitReplicas),
    leaveServer: (reason) => redis.leaveServer(reason),
    onInfo: (info) => memory.observe(info),
    log,
    limits: LIMITS,
  });
  const clock = new RedisClock(commands);
  life.add('subscription to commits', {
    // Not awaited: without Redis the process starts all the same.
    start: () => void commits.start().catch((error: unknown) => log.warn({ err: error }, 'commits cannot be watched')),
    stop: endsWithItsConnection,
  });
  life.add('history watch', { start: () => watch.start(gate), stop: () => watch.stop() });
  life.add('Redis clock', clock);
  life.add('Redis gate', { stop: () => gate.stop() });
  const scripts = new ScriptRunner(commands, join(projectRoot(), 'lua'), gate);
  const sale = createSale({ config, metrics, clock, scripts, database, history: watch }, promises, memory);
  return {
    ...{ name, config, log, metrics, life },
    ...{ redis, commands, subscriber, gate, clock, scripts, commits, history: watch, database, openPool, sale },
    journal: new Journal(commands),
    directory: new CampaignDirectory(sale.reader),
  };
}

function createSale(
  deps: Pick<Core, 'config' | 'metrics' | 'clock' | 'scripts' | 'database' | 'history'>,
  promises: UnpersistedPromises,
  memory: MemoryWatch,
): SaleStore {
  const { config, metrics, clock, scripts, database, history } = deps;
  const { idempotencyTtlMs, waitReplicas } = config;
  return new SaleStore(
    scripts,
    {
      idempotencyTtlMs,
      // A Redis that is nearly full accepts nothing new; payments, releases and replays go on.
      get journalLimitEntries() {
        return memory.full ? 0 : config.journalLimitEntries;
      },
      deviceQuota: LIMITS.deviceQuota,
      deviceWindowMs: LIMITS.deviceWindowMs,
      orderMemoryMs: LIMITS.orderMemoryMs,
      waitReplicas,
    },
    promises,
    new ArchiveRecall(new ArchivedPeople(database), new CampaignArchive(scripts), () => clock.nowMs(), {
      ...LIMITS,
      idempotencyTtlMs,
    }),
    { mayPack: () => history.state?.mayPack ?? false, onBatch: (size) => metrics.claimBatch.observe(size) },
  );
}
