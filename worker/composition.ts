import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'bullmq';
import { uuidv7 } from 'uuidv7';
import { ArchiveRecall } from '../shared/archive/archive-recall.js';
import type { Config } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { projectRoot } from '../shared/config/project-root.js';
import { QUEUE_NAMES, type QueueName, type SweepName } from '../shared/contracts/jobs.js';
import { EngineUnavailable } from '../shared/errors/faults.js';
import { createHistoryGate } from '../shared/history/history-gate.js';
import type { Log } from '../shared/observability/log.js';
import { Metrics } from '../shared/observability/metrics.js';
import type { Stoppable } from '../shared/observability/shutdown.js';
import { ArchivedPeople } from '../shared/postgres/archived-people.js';
import { BansTable } from '../shared/postgres/bans.js';
import { CampaignPolicies } from '../shared/postgres/campaign-policies.js';
import { CampaignsTable, type StoredCampaign } from '../shared/postgres/campaigns.js';
import { CodeJobs } from '../shared/postgres/code-jobs.js';
import { CodesTable } from '../shared/postgres/codes.js';
import { Database } from '../shared/postgres/pool.js';
import { RedemptionAttempts } from '../shared/postgres/redemption-attempts.js';
import { RedemptionsTable } from '../shared/postgres/redemptions.js';
import { WebhookEndpoints } from '../shared/postgres/webhook-endpoints.js';
import { JournalCursor } from '../shared/projection/journal-cursor.js';
import { JobQueues, type Processor, startJobWorker } from '../shared/queues/queues.js';
import { CodeNotifications } from '../shared/redis/code-notifications.js';
import { CommitWatermark } from '../shared/redis/commit-watermark.js';
import { RedisConnections } from '../shared/redis/connections.js';
import { EventStream } from '../shared/redis/event-stream.js';
import type { RedisGate } from '../shared/redis/gate.js';
import { JobResults } from '../shared/redis/job-results.js';
import { Journal } from '../shared/redis/journal.js';
import { MetricsStore } from '../shared/redis/metrics-store.js';
import { RedisClock } from '../shared/redis/redis-clock.js';
import { redisProblems } from '../shared/redis/redis-requirements.js';
import { RelayLease } from '../shared/redis/relay-lease.js';
import { requireRedis } from '../shared/redis/require-redis.js';
import { ScriptRunner } from '../shared/redis/script-runner.js';
import { ActiveCampaigns } from '../shared/sale/active-campaigns.js';
import { CampaignArchive } from '../shared/sale/campaign-archive.js';
import { SaleCopy } from '../shared/sale/sale-copy.js';
import { SaleStore } from '../shared/sale/sale-store.js';
import { VelocityStore } from '../shared/sale/velocity-store.js';
import { ArchiveClosed } from './archive/archive-closed.js';
import { IdempotencyKeys } from './archive/idempotency-keys.js';
import { IdempotencyRows } from './archive/idempotency-rows.js';
import { Persist } from './persist/persist.js';
import { RefusedEntries } from './persist/refused-entries.js';
import { JournalRelay } from './persist/relay.js';
import { createProcessors, createSweeps, type WorkDeps } from './processors.js';
import { EventPublisher } from './publish-outbox/event-publisher.js';
import { Outbox } from './publish-outbox/outbox.js';
import { reconcileAll, reconcileCampaign } from './reconcile/reconcile.js';
import { preheat } from './recovery/preheat.js';
import { Recovery } from './recovery/recovery.js';
import { RedisFill } from './recovery/redis-fill.js';
import { SweepTurns } from './sweeps/sweep-turns.js';
import { Sweeps } from './sweeps/sweeps.js';

const POST_METRICS_EVERY_MS = 5_000;
const RETRY_JOBS_EVERY_MS = 2_000;
/** With an engine away the worker starts all the same, and does its work when they are back. */
const SERVICE_WAIT_MS = 3_000;

/** Puts the worker together and starts it; the only file of it that knows every concrete class. */
export async function startWorker(config: Config, log: Log): Promise<Stoppable> {
  const shape = await requireRedis(config.redis, config);
  if (shape) log.info({ protection: shape.protection }, shape.summary);
  for (const warning of shape?.warnings ?? []) log.warn(warning);
  const name = `worker-${process.pid}-${uuidv7().slice(-6)}`;
  const onRedisError = (purpose: string, error: Error) => log.warn({ purpose, reason: error.message }, 'Redis is away');
  const redis = new RedisConnections(
    config.redis,
    { commandMs: LIMITS.redisSilenceMs, connectMs: LIMITS.redisConnectMs },
    onRedisError,
    (reason) => log.warn({ reason }, 'left the Redis server'),
  );
  const jobs = redis.forJobs();
  const blocking = redis.forJobs();
  const subscriber = redis.forSubscription();
  const commands = redis.forCommands();
  const database = new Database({
    url: config.databaseUrl,
    name: 'doorbuster-worker',
    connections: 6,
    statementMs: LIMITS.postgresBatchStatementMs,
    connectMs: LIMITS.postgresConnectMs,
    onError: (error) => log.warn({ reason: error.message }, 'Postgres is away'),
  });

  // Apart: a batch that hangs is given up soon, so that service is back soon; other statements of a worker may take long.
  const batches = new Database({
    url: config.databaseUrl,
    name: 'doorbuster-worker-persist',
    connections: 2,
    statementMs: LIMITS.persistStatementMs,
    connectMs: LIMITS.postgresConnectMs,
    onError: () => {},
  });

  // Apart as well: the lock of a recovery is held for as long as it takes, and reports must not wait behind other statements.
  const historyDatabase = new Database({
    url: config.databaseUrl,
    name: 'doorbuster-worker-history',
    connections: 4,
    statementMs: LIMITS.persistStatementMs,
    connectMs: LIMITS.postgresConnectMs,
    onError: () => {},
  });

  const metrics = new Metrics(false);
  const commits = new CommitWatermark(subscriber, 0);
  const journal = new Journal(commands);
  const { gate, watch, promises, histories, recovered } = createHistoryGate({
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
  const luaFolder = join(projectRoot(), 'lua');
  const saleLimits = {
    idempotencyTtlMs: config.idempotencyTtlMs,
    journalLimitEntries: config.journalLimitEntries,
    deviceQuota: LIMITS.deviceQuota,
    deviceWindowMs: LIMITS.deviceWindowMs,
    orderMemoryMs: LIMITS.orderMemoryMs,
    waitReplicas: 0,
  };
  const clock = new RedisClock(commands);
  const scripts = new ScriptRunner(commands, luaFolder, gate);
  const archive = new CampaignArchive(scripts);
  const recall = new ArchiveRecall(new ArchivedPeople(database), archive, () => clock.nowMs(), {
    ...LIMITS,
    idempotencyTtlMs: config.idempotencyTtlMs,
  });
  const sale = new SaleStore(scripts, saleLimits, promises, recall);
  // Voids what is in the journal; no user is archived before that.
  const filler = new SaleStore(new ScriptRunner(commands, luaFolder), saleLimits);
  const campaigns = new CampaignsTable(database);
  const redemptions = new RedemptionsTable(database);
  const cursor = new JournalCursor(database);
  const queues = new JobQueues(jobs, (queue, error) =>
    log.warn({ queue, reason: error.message }, 'a queue is in trouble'),
  );
  const persist = new Persist({
    database: batches,
    journal,
    cursor,
    histories,
    refused: new RefusedEntries(filler, redemptions, cursor, metrics, log),
    metrics,
    log,
    limits: { batchEntries: LIMITS.persistBatchEntries },
    publish: (written) => publisher.committed(written),
  });
  const relay = new JournalRelay({
    journal: new Journal(blocking),
    persist,
    inService: () => gate.isOpen,
    lease: new RelayLease(commands, name),
    metrics,
    log,
    limits: LIMITS,
  });
  const restoreDeps = { database, sale: filler, log, idempotencyTtlMs: config.idempotencyTtlMs };
  const recovery = new Recovery({
    ...restoreDeps,
    lockDatabase: historyDatabase,
    processId: name,
    campaigns,
    cursor,
    histories,
    recovered,
    redemptions,
    journal,
    fill: new RedisFill(filler.scripts),
    watch,
    drain: (upTo, numbered) => persist.drain(upTo, numbered),
    leaveServer: (reason) => redis.leaveServer(reason),
    nowMs: async () => {
      await clock.sample();
      return clock.nowMs();
    },
    metrics,
  });

  const answers = new JobResults(commands);
  const reconcileDeps = {
    sale,
    journal,
    cursor,
    redemptions,
    campaigns,
    database,
    metrics,
    log,
    settleMs: LIMITS.reconcileSettleMs,
    refill: (campaign: StoredCampaign, reason: string) => recovery.refill(campaign, reason),
  };
  const preheatDeps = {
    database,
    campaigns,
    sale,
    drain: async () => {
      await persist.upTo(await journal.lastId());
    },
    refill: reconcileDeps.refill,
  };
  const eventDeps = {
    outbox: new Outbox(database),
    endpoints: new WebhookEndpoints(database),
    metrics,
    source: config.eventSource,
    limits: LIMITS,
  };
  const publish = {
    ...eventDeps,
    stream: new EventStream(new ScriptRunner(commands, luaFolder), LIMITS.eventStreamLength),
    wake: (endpointId: string, lastSeq: number) => queues.add('deliver', `${endpointId}-${lastSeq}`, { endpointId }),
  };
  const publisher = new EventPublisher(publish);
  const work: WorkDeps = {
    sale,
    copy: new SaleCopy(commands),
    campaigns,
    clock,
    preheat: (campaign) => preheat(preheatDeps, campaign),
    reconcile: async ({ productId, answerTo }) => {
      if (!productId) return reconcileAll(reconcileDeps, { refill: false });
      const campaign = await campaigns.find(productId);
      const result = campaign && (await reconcileCampaign(reconcileDeps, campaign, { refill: true }));
      if (answerTo) await answers.put(answerTo, result);
    },
    publish,
    publisher,
    queues,
    active: new ActiveCampaigns(sale, commands, clock),
    issue: {
      database,
      jobs: new CodeJobs(database),
      codes: new CodesTable(database),
      news: new CodeNotifications(commands, LIMITS),
      issued: async (campaignId) => {
        const campaign = await campaigns.find(campaignId);
        if (!campaign) return;
        await sale.addCodes(campaign.productId, campaign.codes);
        await queues.add('promote', `codes-${campaign.no}-${campaign.codes}`, { productId: campaign.productId });
      },
      again: ({ id, processed }) => queues.add('codes', `${id}-${processed}`, { jobId: id }),
      metrics,
      log,
      limits: LIMITS,
    },
    attempts: { table: new RedemptionAttempts(database), keepDays: config.attemptsKeepDays },
    bans: new BansTable(database),
    velocity: {
      board: new VelocityStore(commands),
      policies: new CampaignPolicies(database),
      sale,
      metrics,
      log,
      limits: LIMITS,
    },
    archive: new ArchiveClosed({
      redemptions,
      campaigns,
      cursor,
      sale,
      archive,
      idempotencyKeys: new IdempotencyKeys(database),
      log,
      limits: LIMITS,
    }),
    deliver: { ...eventDeps, log, clock, allowPrivate: config.webhookAllowPrivate },
    remembered: new IdempotencyRows(database),
    metrics,
    log,
    limits: { ...LIMITS, idempotencyTtlMs: config.idempotencyTtlMs },
  };
  const processors = createProcessors(work);
  const on = {
    failed: (queue: QueueName | SweepName, error: Error) => {
      metrics.jobFailures.inc({ queue });
      const why = error instanceof EngineUnavailable ? { engine: error.engine, reason: error.message } : { err: error };
      log.warn({ queue, ...why }, 'a job failed and will run again');
    },
    error: (queue: QueueName, error: Error) => log.warn({ queue, reason: error.message }, 'a job worker is in trouble'),
  };
  await commits.start();
  clock.start();
  watch.start(gate);
  recovery.start();
  await inServiceWithin(gate, SERVICE_WAIT_MS);
  const workers: Worker[] = QUEUE_NAMES.map((queue) => {
    const { run, concurrency } = processors[queue];
    return startJobWorker(queue, run as Processor<typeof queue>, jobs, { concurrency }, on);
  });

  const sweeps = new Sweeps({
    sweeps: createSweeps(work),
    turns: new SweepTurns(commands),
    inService: () => gate.isOpen,
    onFailed: (sweep: SweepName, error) => on.failed(sweep, error),
  });
  sweeps.start();
  const retrying = setInterval(() => {
    queues.retryNow().catch((error: unknown) => log.warn({ reason: reasonOf(error) }, 'jobs could not be retried'));
  }, RETRY_JOBS_EVERY_MS);
  relay.start();
  // What a crash may have left; the sweep looks again.
  queues
    .add('reconcile', `start-${name}`, {})
    .catch((error: unknown) => log.warn({ reason: reasonOf(error) }, 'the reconciliation at the start was not queued'));

  const board = new MetricsStore(commands);
  const posting = setInterval(() => {
    metrics
      .snapshot()
      .then((snapshot) => board.post(name, snapshot, clock.nowMs()))
      .catch(() => {
        // Redis is away; the next post has everything.
      });
  }, POST_METRICS_EVERY_MS);
  log.info({ name }, 'the worker is running');

  return {
    async quiet() {
      clearInterval(posting);
      clearInterval(retrying);
      await sweeps.stop();
      await relay.stop();
      await recovery.stop();
      gate.stop();
    },
    async stop() {
      await Promise.all(workers.map((worker) => worker.close()));
      await publisher.stop();
      await queues.close();
      clock.stop();
      await board.remove(name).catch(() => {});
      await watch.stop();
      await Promise.all([database.close(), batches.close(), historyDatabase.close()]);
      redis.close();
    },
  };
}

/** Before the first job: Redis is verified, or filled, unless that takes longer. */
async function inServiceWithin(gate: RedisGate, limitMs: number): Promise<void> {
  const until = performance.now() + limitMs;
  while (!gate.isOpen && performance.now() < until) await sleep(10);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
