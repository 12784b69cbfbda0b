import { join } from 'node:path';
import { uuidv7 } from 'uuidv7';
import { ArchiveRecall } from '../shared/archive/archive-recall.js';
import { BucketClaims } from '../shared/buckets/bucket-claims.js';
import { Places } from '../shared/buckets/places.js';
import { Transfers } from '../shared/buckets/transfers.js';
import type { Config } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { projectRoot, serviceVersion } from '../shared/config/project-root.js';
import { connectPostgres, type OpenPool } from '../shared/datastores/connect.js';
import type { ProductId } from '../shared/domain/ids.js';
import type { Lifecycle } from '../shared/observability/lifecycle.js';
import type { Log } from '../shared/observability/log.js';
import { Metrics } from '../shared/observability/metrics.js';
import { queueErrorLog } from '../shared/observability/queue-error-log.js';
import { settledWithin } from '../shared/observability/settled-within.js';
import { openTracing, type Tracing } from '../shared/observability/tracing.js';
import { ArchivedPeople } from '../shared/postgres/archived-people.js';
import { CampaignBuckets } from '../shared/postgres/campaign-buckets.js';
import type { StoredCampaign } from '../shared/postgres/campaigns.js';
import { Heartbeats } from '../shared/postgres/heartbeats.js';
import { liveWorkers } from '../shared/postgres/live-workers.js';
import type { Database } from '../shared/postgres/pool.js';
import { JournalCursor } from '../shared/projection/journal-cursor.js';
import { JobQueues, type QueueServer } from '../shared/queues/queues.js';
import type { RedisClock } from '../shared/redis/redis-clock.js';
import { ScriptRunner } from '../shared/redis/script-runner.js';
import { CampaignArchive } from '../shared/sale/campaign-archive.js';
import { SaleStore } from '../shared/sale/sale-store.js';
import { Sales } from '../shared/sale/sales.js';
import { awaitPromises, connectShard, type Shard } from '../shared/shards/shard.js';
import { ShardMap } from '../shared/shards/shard-map.js';
import { Shards } from '../shared/shards/shards.js';

/** How many shards a worker recovers at once. */
const RECOVERIES = 6;

/** What the worker has for each shard. */
export type WorkerShard = Shard & {
  cursor: JournalCursor;
  sale: SaleStore;
  /**
   * Calls scripts even while Redis is out of service. It needs no recall of archived users: it voids reservations whose
   * entries are still in the journal, and a campaign is archived only after the journal has been persisted.
   */
  filler: SaleStore;
  /** Whether a campaign, or a bucket of it, is in this shard. */
  has: (product: ProductId) => boolean;
  /** The same of a campaign as Postgres has it now; false while Postgres lacks places that it had. */
  isHere: (campaign: StoredCampaign) => boolean;
};

/** The parts that every module of the worker may use: the process, its datastores, and the campaigns in Redis. */
export type Core = {
  /** Unique to this process. */
  name: string;
  config: Config;
  log: Log;
  metrics: Metrics;
  /** null = no spans are recorded */
  tracing: Tracing | null;
  life: Lifecycle;
  shards: Shards<WorkerShard>;
  /** Where the queues of each shard are. */
  queueServers: readonly QueueServer[];
  /** The clock of the home shard. */
  clock: RedisClock;
  database: Database;
  /** Opens a pool of its own for slow statements, so that other statements do not wait behind them. */
  openPool: OpenPool;
  /** A pool of its own: reports must not wait for other statements. */
  historyDatabase: Database;
  /** For the locks of recoveries. */
  lockDatabase: Database;
  sales: Sales;
  queues: JobQueues;
  /** Logs an error of a queue or of its worker. */
  onQueueError: (queue: string, error: Error) => void;
};

/**
 * Connects one worker to Redis and Postgres. Neither has to be reachable yet.
 * @param connectMs how long one connection to Postgres may take
 */
export async function connect(
  config: Config,
  log: Log,
  life: Lifecycle,
  connectMs: number = LIMITS.postgres.connectMs,
): Promise<Core> {
  const name = `worker-${process.pid}-${uuidv7().slice(-6)}`;
  const metrics = new Metrics(false);
  const version = serviceVersion();
  metrics.describeBuild('worker', version);
  // First, so that it stops last and sends the spans of what stops before it.
  const tracing = await openTracing({
    settings: config.tracing,
    limits: LIMITS.tracing,
    component: 'worker',
    version,
    metrics,
    log,
    life,
  });
  const openPool = connectPostgres(config, life, connectMs);
  const database = openPool({
    name: 'doorbuster-worker',
    connections: 6,
    statementMs: LIMITS.postgres.batchStatementMs,
    onError: (error) => log.warn({ reason: error.message }, 'Postgres is away'),
  });
  const historyDatabase = openPool({
    name: 'doorbuster-worker-history',
    connections: 4,
    statementMs: LIMITS.postgres.persistStatementMs,
  });
  // Each recovery that runs holds a connection, and must leave some for reports.
  const lockDatabase =
    config.shards === 1
      ? historyDatabase
      : openPool({
          name: 'doorbuster-worker-locks',
          connections: Math.min(config.shards, RECOVERIES),
          statementMs: LIMITS.postgres.persistStatementMs,
        });
  const heartbeats = new Heartbeats(historyDatabase);
  const map = new ShardMap(config.shards);
  const all = Array.from({ length: config.shards }, (_, index): WorkerShard => {
    const shard = connectShard({
      ...{ processId: name, kind: 'worker' as const, index, config, map, historyDatabase, heartbeats, log, life },
      commitsWaiting: 0,
    });
    const has = (product: ProductId) => map.bucketIn(product, index) !== null;
    const isHere = (campaign: StoredCampaign) => !map.isSetBack && map.isIn(campaign, index);
    const cursor = new JournalCursor(database, index, config.shards > 1);
    return { ...shard, ...createSaleStores(config, database, shard), cursor, has, isHere };
  });
  awaitPromises({ life, log }, all, async () => {
    const workers = await liveWorkers(historyDatabase).catch(() => []);
    return workers.some((other) => other !== name);
  });
  const shards = new Shards(all, map);
  const sales = new Sales(
    all.map(({ sale }) => sale),
    map,
  );
  const transfers = new Transfers(sales, new CampaignBuckets(database), LIMITS.buckets);
  const units = new BucketClaims(sales, new Places(sales, LIMITS.buckets), transfers, LIMITS.buckets);
  for (const { sale } of all) sale.reservations.units = units;
  const onQueueError = queueErrorLog(log);
  const queueServers = all.map(({ redis }) => ({ connection: redis.forJobs(), shardPrefix: redis.prefix }));
  const queues = new JobQueues(queueServers, onQueueError, LIMITS.jobs);
  life.add('job queues', { stop: () => settledWithin(queues.close(), 500) });
  return {
    ...{ name, config, log, metrics, tracing, life, shards, queueServers, queues, onQueueError },
    ...{ database, openPool, historyDatabase, lockDatabase },
    clock: shards.home.clock,
    sales,
  };
}

function createSaleStores(
  { idempotencyTtlMs, journalLimitEntries }: Config,
  database: Database,
  { index, commands, scripts, clock, promises }: Shard,
): Pick<WorkerShard, 'sale' | 'filler'> {
  const limits = {
    idempotencyTtlMs,
    journalLimitEntries,
    deviceQuota: LIMITS.claims.deviceQuota,
    deviceWindowMs: LIMITS.claims.deviceWindowMs,
    orderMemoryMs: LIMITS.claims.orderMemoryMs,
    oneTimeTokenMs: LIMITS.claims.oneTimeTokenMs,
    waitReplicas: 0,
  };
  const recall = new ArchiveRecall(
    new ArchivedPeople(database),
    index,
    new CampaignArchive(scripts),
    () => clock.nowMs(),
    {
      ...LIMITS.archive,
      idempotencyTtlMs,
    },
  );
  return {
    sale: new SaleStore(scripts, limits, promises, recall),
    filler: new SaleStore(new ScriptRunner(commands, join(projectRoot(), 'lua')), limits),
  };
}
