import { uuidv7 } from 'uuidv7';
import { ArchiveRecall } from '../shared/archive/archive-recall.js';
import { BucketClaims } from '../shared/buckets/bucket-claims.js';
import { Places } from '../shared/buckets/places.js';
import { Transfers } from '../shared/buckets/transfers.js';
import type { Config } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { serviceVersion } from '../shared/config/project-root.js';
import { connectPostgres, type OpenPool } from '../shared/datastores/connect.js';
import type { Lifecycle } from '../shared/observability/lifecycle.js';
import type { Log } from '../shared/observability/log.js';
import { Metrics } from '../shared/observability/metrics.js';
import { queueErrorLog } from '../shared/observability/queue-error-log.js';
import { Recent } from '../shared/observability/recent.js';
import { openTracing, type Tracing } from '../shared/observability/tracing.js';
import { ArchivedPeople } from '../shared/postgres/archived-people.js';
import { CampaignBuckets } from '../shared/postgres/campaign-buckets.js';
import { CircuitBreaker, type Reads } from '../shared/postgres/circuit-breaker.js';
import { Heartbeats } from '../shared/postgres/heartbeats.js';
import type { Database } from '../shared/postgres/pool.js';
import { ReplicaReads } from '../shared/postgres/replica-reads.js';
import { JobQueues, type QueueState } from '../shared/queues/queues.js';
import { MemoryGuard } from '../shared/redis/memory-guard.js';
import type { RedisClock } from '../shared/redis/redis-clock.js';
import { CampaignArchive } from '../shared/sale/campaign-archive.js';
import { CampaignDirectory } from '../shared/sale/campaign-directory.js';
import { SaleStore } from '../shared/sale/sale-store.js';
import { Sales } from '../shared/sale/sales.js';
import { SetBackCheck } from '../shared/shards/set-back-check.js';
import { awaitPromises, connectShard, type Shard } from '../shared/shards/shard.js';
import { ShardMap } from '../shared/shards/shard-map.js';
import { Shards } from '../shared/shards/shards.js';

/** Responses that may wait for Postgres at once in one shard; more would only wait longer than their time limit. */
const MAX_DURABLE_WAITING = 20_000;
const QUEUES_EVERY_MS = 1_000;

/** What the API has for each shard. */
export type ApiShard = Shard & { sale: SaleStore };

/** What every module of the API may use: the process, its datastores, and the sale in them. */
export type Core = {
  /** Unique to this process. */
  name: string;
  config: Config;
  log: Log;
  metrics: Metrics;
  /** null = no spans are recorded */
  tracing: Tracing | null;
  life: Lifecycle;
  shards: Shards<ApiShard>;
  setBack: SetBackCheck;
  /** The clock of the home shard, for signed times. Times of a campaign are decided by the clock of its shard. */
  clock: RedisClock;
  database: Database;
  /**
   * Reads of terms, codes and policies, which fail at once while Postgres is away or too slow. In a process that only
   * reads they go to the replica, if there is one.
   */
  reads: Reads;
  /** Of a process that only reads; null = it has no replica. */
  replica: Pick<ReplicaReads, 'trouble'> | null;
  /** For statements that others must not wait behind. */
  openPool: OpenPool;
  sales: Sales;
  /** For claims in divided campaigns. */
  bucketClaims: BucketClaims;
  /** Names the current histories of all shards: what Postgres has given may be given again in later ones. */
  generation: () => string;
  directory: CampaignDirectory;
  queues: JobQueues;
  /** The state of the queues, read once a second at most. */
  queueStates: Recent<QueueState[]>;
};

/** Connects one API process to Redis and Postgres; neither has to be there yet. */
export async function connect(config: Config, log: Log, life: Lifecycle): Promise<Core> {
  const name = `api-${process.pid}-${uuidv7().slice(-6)}`;
  const metrics = new Metrics();
  const version = serviceVersion();
  metrics.describeBuild('api', version);
  // First, so that it stops last and sends the spans of what stops before it.
  const tracing = await openTracing({
    settings: config.tracing,
    limits: LIMITS.tracing,
    component: 'api',
    version,
    metrics,
    log,
    life,
  });
  const openPool = connectPostgres(config, life, LIMITS.postgres.connectMs);
  const breaker = new CircuitBreaker({
    failures: LIMITS.postgres.breakerFailures,
    openMs: LIMITS.postgres.breakerOpenMs,
  });
  const isReader = config.apiRole === 'read';
  const database = openPool({
    name: 'doorbuster-api',
    // A process that reads needs the primary for attempts, and for what it recalls of archived campaigns.
    connections: isReader ? 2 : 10,
    statementMs: LIMITS.postgres.statementMs,
    onError: (error) => log.warn({ reason: error.message }, 'Postgres is away'),
  });
  const recalls = breaker.readsOf(database);
  const replica = openReplicaReads({ config, log, life, metrics, openPool }, { database, reads: recalls });
  const reads = replica ?? recalls;
  metrics.observe(
    'postgres_breaker_open',
    'Whether a process reads no terms and codes from Postgres for a moment, because it failed several times in a row',
    () => Number(breaker.isOpen),
    'max',
  );
  // A pool of its own: its reports tell a worker that this process is alive.
  const historyDatabase = openPool({
    name: 'doorbuster-api-history',
    connections: 2,
    statementMs: LIMITS.postgres.statementMs,
  });
  const heartbeats = new Heartbeats(historyDatabase);
  const map = new ShardMap(config.shards);
  const memories: MemoryGuard[] = [];
  const all = Array.from({ length: config.shards }, (_, index): ApiShard => {
    const memory = new MemoryGuard(LIMITS.redis.memory, (full, { usedShare }) =>
      shard.log.warn(
        { full, used_share: usedShare },
        full ? 'Redis is nearly full: new claims get 503' : 'Redis has room again',
      ),
    );
    memories.push(memory);
    const shard = connectShard({
      ...{ processId: name, kind: 'api' as const, index, config, map, historyDatabase, heartbeats, log, life },
      commitsWaiting: MAX_DURABLE_WAITING,
      onRedisError: () => metrics.engineErrors.inc({ engine: 'redis' }),
      onInfo: (info) => memory.observe(info),
    });
    return { ...shard, sale: createSale({ config, metrics, recalls }, shard, memory) };
  });
  awaitPromises({ life, log }, all, async () => true);
  metrics.observe(
    'redis_memory_used_ratio',
    'Share of maxmemory that Redis uses, of the fullest shard; 0 without maxmemory',
    () => Math.max(...memories.map(({ headroom }) => headroom.usedShare)),
    'max',
  );
  const generation = () => all.map(({ gate }) => gate.generation).join();
  const shards = new Shards(all, map);
  const sales = new Sales(
    all.map(({ sale }) => sale),
    map,
  );
  const places = new Places(sales, LIMITS.buckets);
  for (const { sale } of all) sale.line.places = places;
  const transfers = new Transfers(sales, new CampaignBuckets(database), LIMITS.buckets);
  const bucketClaims = new BucketClaims(sales, places, transfers, LIMITS.buckets);
  for (const { sale } of all) sale.reservations.units = bucketClaims;
  const queues = connectQueues(all, life, log);
  return {
    queues,
    queueStates: new Recent(() => queues.states(shards.home.clock.nowMs()), QUEUES_EVERY_MS),
    bucketClaims,
    setBack: new SetBackCheck(shards),
    ...{ name, config, log, metrics, tracing, life, shards, database, reads, replica, openPool, sales },
    clock: shards.home.clock,
    ...{ generation, directory: new CampaignDirectory(sales, generation) },
  };
}

function connectQueues(shards: readonly ApiShard[], life: Lifecycle, log: Log): JobQueues {
  const queues = new JobQueues(
    // BullMQ defines sixty commands on its connection, which ioredis copies into every pipeline that it begins there.
    shards.map(({ redis }) => ({ connection: redis.forQueues(), shardPrefix: redis.prefix })),
    queueErrorLog(log),
    LIMITS.jobs,
  );
  life.add('job queues', { stop: () => queues.close().catch(() => {}) });
  return queues;
}

/** The reads of a process that only reads: from the replica, if there is one. */
function openReplicaReads(
  { config, log, life, metrics, openPool }: Pick<Core, 'config' | 'log' | 'life' | 'metrics' | 'openPool'>,
  primary: { database: Database; reads: Reads },
): ReplicaReads | null {
  if (config.apiRole !== 'read' || config.databaseReadUrl === null) return null;
  const replica = openPool({
    ...{ url: config.databaseReadUrl, name: 'doorbuster-api-reads', connections: 8 },
    statementMs: LIMITS.postgres.statementMs,
  });
  const reads = new ReplicaReads({
    ...{ replica, primary: primary.database, ofPrimary: primary.reads, limits: LIMITS.postgres },
    onChange: (trouble) =>
      trouble === null
        ? log.info('the replica of Postgres serves terms, codes and policies')
        : log.warn({ reason: trouble }, 'terms, codes and policies are read from the primary instead of the replica'),
  });
  life.add('reads of the replica', reads);
  metrics.observe(
    'postgres_replica_away',
    'Whether a process that only reads uses the primary of Postgres, because the replica is away or behind',
    () => Number(reads.trouble !== null),
    'max',
  );
  return reads;
}

function createSale(
  { config, metrics, recalls }: Pick<Core, 'config' | 'metrics'> & { recalls: Reads },
  { index, clock, scripts, promises }: Shard,
  memory: MemoryGuard,
): SaleStore {
  const { idempotencyTtlMs, waitReplicas } = config;
  return new SaleStore(
    scripts,
    {
      idempotencyTtlMs,
      // A Redis that is nearly full accepts nothing new; payments, releases and replays go on.
      get journalLimitEntries() {
        return memory.full ? 0 : config.journalLimitEntries;
      },
      deviceQuota: LIMITS.claims.deviceQuota,
      deviceWindowMs: LIMITS.claims.deviceWindowMs,
      orderMemoryMs: LIMITS.claims.orderMemoryMs,
      oneTimeTokenMs: LIMITS.claims.oneTimeTokenMs,
      waitReplicas,
    },
    promises,
    new ArchiveRecall(new ArchivedPeople(recalls), index, new CampaignArchive(scripts), () => clock.nowMs(), {
      ...LIMITS.archive,
      idempotencyTtlMs,
    }),
    (size) => metrics.claimBatch.observe(size),
  );
}
