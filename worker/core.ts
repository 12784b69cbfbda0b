import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { uuidv7 } from 'uuidv7';
import { ArchiveRecall } from '../shared/archive/archive-recall.js';
import type { Config } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { projectRoot } from '../shared/config/project-root.js';
import { connectDatastores, type OpenPool } from '../shared/datastores/connect.js';
import { createHistoryGate, type HistoryGate } from '../shared/history/history-gate.js';
import { endsWithItsConnection, type Lifecycle } from '../shared/observability/lifecycle.js';
import type { Log } from '../shared/observability/log.js';
import { Metrics } from '../shared/observability/metrics.js';
import { ArchivedPeople } from '../shared/postgres/archived-people.js';
import type { Database } from '../shared/postgres/pool.js';
import { JobQueues } from '../shared/queues/queues.js';
import { CommitWatermark } from '../shared/redis/commit-watermark.js';
import type { RedisConnections } from '../shared/redis/connections.js';
import { Journal } from '../shared/redis/journal.js';
import { RedisClock } from '../shared/redis/redis-clock.js';
import { redisProblems } from '../shared/redis/redis-requirements.js';
import { ScriptRunner } from '../shared/redis/script-runner.js';
import { CampaignArchive } from '../shared/sale/campaign-archive.js';
import { SaleStore } from '../shared/sale/sale-store.js';

/** The parts that every module of the worker may use: the process, its datastores, and the campaigns in Redis. */
export type Core = {
  /** Unique to this process. */
  name: string;
  config: Config;
  log: Log;
  metrics: Metrics;
  life: Lifecycle;
  redis: RedisConnections;
  commands: Redis;
  /** The connection of BullMQ. */
  jobs: Redis;
  clock: RedisClock;
  journal: Journal;
  database: Database;
  /** Opens a pool of its own for slow statements, so that other statements do not wait behind them. */
  openPool: OpenPool;
  /**
   * Has a pool of its own, for two reasons: reports must not wait for other statements, and a recovery occupies one
   * connection for as long as it holds its lock.
   */
  history: HistoryGate & { database: Database };
  sale: SaleStore;
  /**
   * Calls scripts even while Redis is out of service. It needs no recall of archived users: it voids reservations whose
   * entries are still in the journal, and a campaign is archived only after the journal has been persisted.
   */
  filler: SaleStore;
  queues: JobQueues;
  /** Announces every commit of the journal, by any worker. */
  commits: CommitWatermark;
};

/** Connects one worker to Redis and Postgres. Neither has to be reachable yet. */
export function connect(config: Config, log: Log, life: Lifecycle): Core {
  const name = `worker-${process.pid}-${uuidv7().slice(-6)}`;
  const metrics = new Metrics(false);
  const { redis, openPool } = connectDatastores(config, log, life);
  const [jobs, subscriber, commands] = [redis.forJobs(), redis.forSubscription(), redis.forCommands()];
  const database = openPool({
    name: 'doorbuster-worker',
    connections: 6,
    statementMs: LIMITS.postgresBatchStatementMs,
    onError: (error) => log.warn({ reason: error.message }, 'Postgres is away'),
  });
  const historyDatabase = openPool({
    name: 'doorbuster-worker-history',
    connections: 4,
    statementMs: LIMITS.persistStatementMs,
  });
  const commits = new CommitWatermark(subscriber, 0);
  life.add('subscription to commits', { start: () => commits.start(), stop: endsWithItsConnection });
  const history = createHistoryGate({
    processId: name,
    kind: 'worker',
    redis: commands,
    database: historyDatabase,
    commits,
    shape: () => redisProblems(commands, config.production, config.waitReplicas),
    leaveServer: (reason) => redis.leaveServer(reason),
    log,
    limits: LIMITS,
  });
  const { gate, watch } = history;
  const clock = new RedisClock(commands);
  life.add('Redis gate', { quiet: () => gate.stop() });
  life.add('history watch', { start: () => watch.start(gate), stop: () => watch.stop() });
  life.add('Redis clock', clock);
  const queues = new JobQueues(jobs, (queue, error) =>
    log.warn({ queue, reason: error.message }, 'a queue reported an error'),
  );
  life.add('job queues', { stop: () => queues.close() });
  return {
    ...{ name, config, log, metrics, life, redis, commands, jobs, clock, database, openPool, queues, commits },
    journal: new Journal(commands),
    history: { ...history, database: historyDatabase },
    ...createSaleStores({ config, commands, database, clock, history }),
  };
}

function createSaleStores({
  config: { idempotencyTtlMs, journalLimitEntries },
  commands,
  database,
  clock,
  history: { gate, promises },
}: Pick<Core, 'config' | 'commands' | 'database' | 'clock'> & { history: HistoryGate }): Pick<Core, 'sale' | 'filler'> {
  const luaFolder = join(projectRoot(), 'lua');
  const limits = {
    idempotencyTtlMs,
    journalLimitEntries,
    deviceQuota: LIMITS.deviceQuota,
    deviceWindowMs: LIMITS.deviceWindowMs,
    orderMemoryMs: LIMITS.orderMemoryMs,
    waitReplicas: 0,
  };
  const scripts = new ScriptRunner(commands, luaFolder, gate);
  const recall = new ArchiveRecall(new ArchivedPeople(database), new CampaignArchive(scripts), () => clock.nowMs(), {
    ...LIMITS,
    idempotencyTtlMs,
  });
  return {
    sale: new SaleStore(scripts, limits, promises, recall),
    filler: new SaleStore(new ScriptRunner(commands, luaFolder), limits),
  };
}
