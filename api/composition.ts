import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { uuidv7 } from 'uuidv7';
import { ArchiveRecall } from '../shared/archive/archive-recall.js';
import type { Config } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { projectRoot } from '../shared/config/project-root.js';
import { createHistoryGate } from '../shared/history/history-gate.js';
import type { Log } from '../shared/observability/log.js';
import { Metrics } from '../shared/observability/metrics.js';
import type { Stoppable } from '../shared/observability/shutdown.js';
import { ArchivedPeople } from '../shared/postgres/archived-people.js';
import { BansTable } from '../shared/postgres/bans.js';
import { CampaignPolicies } from '../shared/postgres/campaign-policies.js';
import { CampaignTermsTable } from '../shared/postgres/campaign-terms.js';
import { CampaignsTable } from '../shared/postgres/campaigns.js';
import { CodeJobs } from '../shared/postgres/code-jobs.js';
import { CodesTable } from '../shared/postgres/codes.js';
import { Database } from '../shared/postgres/pool.js';
import { RedemptionAttempts } from '../shared/postgres/redemption-attempts.js';
import { RedemptionsTable } from '../shared/postgres/redemptions.js';
import { WebhookEndpoints } from '../shared/postgres/webhook-endpoints.js';
import { JobQueues } from '../shared/queues/queues.js';
import { CodeNotifications } from '../shared/redis/code-notifications.js';
import { CommitWatermark } from '../shared/redis/commit-watermark.js';
import { RedisConnections } from '../shared/redis/connections.js';
import { JobResults } from '../shared/redis/job-results.js';
import { Journal } from '../shared/redis/journal.js';
import { MetricsStore } from '../shared/redis/metrics-store.js';
import { RedisClock } from '../shared/redis/redis-clock.js';
import { redisProblems } from '../shared/redis/redis-requirements.js';
import { RelayLease } from '../shared/redis/relay-lease.js';
import { requireRedis } from '../shared/redis/require-redis.js';
import { ScriptRunner } from '../shared/redis/script-runner.js';
import { CampaignArchive } from '../shared/sale/campaign-archive.js';
import { CampaignDirectory } from '../shared/sale/campaign-directory.js';
import { SALE_SCRIPTS, SaleStore } from '../shared/sale/sale-store.js';
import { VelocityStore } from '../shared/sale/velocity-store.js';
import { BanDesk } from './admin/bans.js';
import { banRoutes } from './admin/bans.route.js';
import { Campaigns } from './admin/campaigns.js';
import { campaignRoutes } from './admin/campaigns.route.js';
import { Codes } from './admin/codes.js';
import { codeRoutes } from './admin/codes.route.js';
import { DuplicatePayments } from './admin/duplicate-payments.js';
import { duplicatePaymentsRoute } from './admin/duplicate-payments.route.js';
import { jobBoardRoutes } from './admin/job-board.route.js';
import { lineRoute } from './admin/line.route.js';
import { OverviewReader } from './admin/overview.js';
import { overviewRoute } from './admin/overview.route.js';
import { reconcileRoute } from './admin/reconcile.route.js';
import { redemptionsRoute } from './admin/redemptions.route.js';
import { sessionRoutes } from './admin/session.route.js';
import { statsRoute } from './admin/stats.route.js';
import { Webhooks } from './admin/webhooks.js';
import { webhookRoutes } from './admin/webhooks.route.js';
import { Checkout } from './checkout/checkout.js';
import { checkoutRoute } from './checkout/checkout.route.js';
import { tokenRoutes } from './checkout/token.route.js';
import { Acknowledgement } from './claim/acknowledgement.js';
import { Claim } from './claim/claim.js';
import { CodeTexts } from './claim/code-texts.js';
import { ReplicationWatch } from './claim/replication-watch.js';
import { TermsCache } from './claim/terms-cache.js';
import { TermsNotifications } from './claim/terms-notifications.js';
import { startApiProcesses } from './cluster.js';
import { AttemptRecorder } from './coupons/attempt-recorder.js';
import { CodeFilter } from './coupons/code-filter.js';
import { observeCodeFilter } from './coupons/code-filter-metrics.js';
import { CodeLookup } from './coupons/code-lookup.js';
import { CodePatterns } from './coupons/code-patterns.js';
import { CodeResolver } from './coupons/code-resolver.js';
import { couponRoutes } from './coupons/coupons.route.js';
import { OneTimeTokens } from './coupons/one-time-token.js';
import { Redemption } from './coupons/redemption.js';
import { Validation } from './coupons/validation.js';
import { AccountCounts } from './guards/abuse/account-counts.js';
import { BanStore } from './guards/abuse/ban-store.js';
import { Bans } from './guards/abuse/bans.js';
import { BlocklistGuard } from './guards/abuse/blocklist-guard.js';
import { FailedAttemptLimiter } from './guards/abuse/failed-attempt-limiter.js';
import { Risk } from './guards/abuse/risk.js';
import { RiskGate, type RiskGateDeps } from './guards/abuse/risk-gate.js';
import { TokenSurge } from './guards/abuse/token-surge.js';
import { Velocity } from './guards/abuse/velocity.js';
import { AppAttest } from './guards/attestation/app-attest.js';
import { Attestation } from './guards/attestation/attestation.js';
import { AttestedKeys } from './guards/attestation/attested-keys.js';
import { Challenges } from './guards/attestation/challenges.js';
import { PlatformNonces } from './guards/attestation/platform-nonces.js';
import { PlatformAttestation } from './guards/attestation/platform-proof.js';
import { PlayIntegrity } from './guards/attestation/play-integrity.js';
import { ApiKeys } from './guards/auth/api-keys.js';
import { OperatorSessions } from './guards/auth/operator-sessions.js';
import { ShopperIdentity } from './guards/auth/shopper-identity.js';
import { Tickets } from './guards/auth/ticket.js';
import { platformAttested, proofOfWork, selfDeclared, TokenIssuer } from './guards/auth/token-issuer.js';
import { LoadShedder } from './guards/limits/load-shedding.js';
import { LocalQuota } from './guards/limits/local-quota.js';
import { MemoryGuard } from './guards/limits/memory-guard.js';
import { OpenCounts, shareConnections } from './guards/limits/open-counts.js';
import { PolicyCache } from './guards/limits/policy-cache.js';
import { CampaignQuota, Quota } from './guards/limits/quotas.js';
import { createApp, createHttpServer, exactRoutes } from './http/app.js';
import { closeServer } from './http/close-server.js';
import { Cors } from './http/cors.js';
import { FastRejects } from './http/fast-reject.js';
import { ProblemEdge } from './http/problem.js';
import { type Guard, type GuardName, type Route, withGuards } from './http/route.js';
import { opsRoutes } from './ops/ops.route.js';
import { ReadinessCheck } from './ops/readiness.js';
import { campaignViewRoute } from './pages/campaign-view.route.js';
import { docsRoutes } from './pages/docs.route.js';
import { pageRoutes } from './pages/page.route.js';
import { paymentRoutes } from './payment/payment.route.js';
import { Gateway } from './realtime/gateway.js';
import { leaveRoute } from './waiting-room/leave.route.js';
import { queueStatusRoute } from './waiting-room/queue-status.route.js';

/** Answers that may wait for Postgres at once; more would only wait longer than their time limit. */
const MAX_DURABLE_WAITING = 20_000;
const POST_METRICS_EVERY_MS = 5_000;

/** Starts one API, or several processes of it. @throws UnsuitableRedis when Redis is set up in a way that loses promises */
export async function start(config: Config, log: Log): Promise<Stoppable> {
  const shape = await requireRedis(config.redis, config);
  if (shape) log.info({ protection: shape.protection }, shape.summary);
  for (const warning of shape?.warnings ?? []) log.warn(warning);
  return severalOf(config) ? startApiProcesses(config.apiProcesses, log) : startApi(config, log);
}

/** A process that starts others waits for them, and they have a deadline of their own. */
export function stopLimitMs(config: Config): number {
  return severalOf(config) ? LIMITS.stopMs + 1_000 : LIMITS.stopMs;
}

const severalOf = (config: Config) => config.apiProcesses > 1 && cluster.isPrimary;

/** Puts the API together and starts it; the only file of it that knows every concrete class. */
async function startApi(config: Config, log: Log): Promise<Stoppable> {
  const name = `api-${process.pid}-${uuidv7().slice(-6)}`;
  const metrics = new Metrics();
  const parts = connectDeps(config, log, metrics, name);
  const { version } = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8')) as { version: string };

  const guards = createRouteGuards(parts);
  const routes = withGuards(createRoutes(config, log, metrics, parts), guards);
  const readiness = new ReadinessCheck(
    parts.scripts,
    parts.gate,
    SALE_SCRIPTS.map((script) => script.name),
    parts.database,
    parts.journal,
    parts.clock,
    parts.watch,
    config.journalLimitEntries,
  );
  const board = new MetricsStore(parts.commands);
  const ops = opsRoutes({ readiness, metrics, board, clock: parts.clock, processName: name, log });
  const documented = [...routes, ...ops];
  const edge = new ProblemEdge(log, metrics);
  const cors = new Cors(config.shopOrigins, parts.door.terse);
  const docs = await docsRoutes(documented, version);
  const pages = await pageRoutes();
  const serverOf = (shown: readonly Route[], exact: readonly Route[]) =>
    createHttpServer(
      createApp(shown, edge, { trustProxy: config.trustProxy }),
      edge,
      metrics,
      () => readiness.draining,
      exactRoutes(exact),
      cors,
    );
  const onOpsPort = config.opsPort === null ? () => false : isForOperatorsAlone;
  const shown = [...documented, ...docs, ...pages].filter((route) => !onOpsPort(route));
  const server = serverOf(withGuards(shown, guards), routes);
  const operatorsRoutes = [...routes.filter(({ contract }) => contract.tag === 'admin'), ...ops, ...pages];
  const opsServer = config.opsPort === null ? null : serverOf(operatorsRoutes, []);
  if (config.trustProxy === 0) shareConnections(server, LIMITS.connectionsPerNetwork, metrics);
  const byNetwork = (limit: number, windowMs: number) => new LocalQuota(limit, windowMs, LIMITS.callersKept);
  const gateway = new Gateway({
    ...parts,
    socketQuota: byNetwork(config.socketsPerMinute, 60_000),
    frameQuota: byNetwork(config.socketFramesPer10s, 10_000),
    socketsOpen: new OpenCounts(LIMITS.socketsPerNetwork),
    cors,
    metrics,
    log,
  });
  gateway.attach(server);

  const url = await listen(server, config.port, config.host);
  const opsUrl = opsServer && (await listen(opsServer, config.opsPort ?? 0, config.host));
  log.info({ url, ...(opsUrl ? { ops_url: opsUrl } : {}), name }, 'the API is listening');
  parts.start();
  const posting = setInterval(() => {
    metrics
      .snapshot()
      .then((snapshot) => board.post(name, snapshot, parts.clock.nowMs()))
      .catch(() => {
        // Redis is away; the next post has everything.
      });
  }, POST_METRICS_EVERY_MS);

  return {
    async quiet() {
      // Readiness goes first, so that a load balancer sends nobody here who would meet a closed door.
      readiness.draining = true;
      gateway.drain();
      await sleep(LIMITS.drainMs);
    },
    async stop() {
      // Sockets end while the last requests are answered.
      gateway.terminate();
      await Promise.all([closeServer(server), opsServer && closeServer(opsServer)]);
      clearInterval(posting);
      await board.remove(name).catch(() => {});
      await parts.stop();
    },
  };
}

/** What a listener of its own keeps away from shoppers; health stays on both, since each listener is asked for its own. */
const isForOperatorsAlone = ({ contract: { path } }: Route): boolean =>
  path === '/metrics' || path.startsWith('/admin/queues');

/** @returns the address it listens on */
async function listen(server: Server, port: number, host: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return `http://${host}:${(server.address() as AddressInfo).port}`;
}

type Parts = ReturnType<typeof connectDeps>;

function connectDeps(config: Config, log: Log, metrics: Metrics, processId: string) {
  const onRedisError = (purpose: string, error: Error) => {
    metrics.engineErrors.inc({ engine: 'redis' });
    log.warn({ purpose, reason: error.message }, 'Redis is away');
  };
  const redis = new RedisConnections(
    config.redis,
    { commandMs: LIMITS.redisSilenceMs, connectMs: LIMITS.redisConnectMs },
    onRedisError,
    (reason) => log.warn({ reason }, 'left the Redis server'),
  );
  const commands = redis.forCommands();
  // BullMQ defines sixty commands on its connection, which ioredis copies into every pipeline that it begins there.
  const queueCommands = redis.forCommands();
  const subscriber = redis.forSubscription();
  const database = new Database({
    url: config.databaseUrl,
    name: 'doorbuster-api',
    connections: 10,
    statementMs: LIMITS.postgresStatementMs,
    connectMs: LIMITS.postgresConnectMs,
    onError: (error) => log.warn({ reason: error.message }, 'Postgres is away'),
  });
  const connections = { url: config.databaseUrl, connectMs: LIMITS.postgresConnectMs, onError: () => {} };
  // Apart from all others: uploads and exports hold theirs for as long as their client takes, and the filter reads everything.
  const transfers = new Database({
    ...connections,
    name: 'doorbuster-api-transfers',
    connections: LIMITS.transfers,
    statementMs: LIMITS.transferMs,
  });
  const filterDatabase = new Database({
    ...connections,
    name: 'doorbuster-api-codes',
    connections: 1,
    statementMs: LIMITS.codePageStatementMs,
  });
  // Apart as well: its reports tell a worker that this process is alive.
  const historyDatabase = new Database({
    ...connections,
    name: 'doorbuster-api-history',
    connections: 2,
    statementMs: LIMITS.postgresStatementMs,
  });
  const codeSubscriber = redis.forSubscription();
  const codeFilter = new CodeFilter(codeSubscriber, new CodesTable(filterDatabase), log, LIMITS);
  const commits = new CommitWatermark(subscriber, MAX_DURABLE_WAITING);
  const journal = new Journal(commands);
  const clock = new RedisClock(commands);
  const memoryGuard = new MemoryGuard(LIMITS.redisMemory, (full, { usedShare }) =>
    log.warn(
      { full, used_share: usedShare },
      full ? 'Redis is nearly full: new claims get 503' : 'Redis has room again',
    ),
  );
  const { gate, watch, promises } = createHistoryGate({
    processId,
    kind: 'api',
    redis: commands,
    database: historyDatabase,
    commits,
    shape: () => redisProblems(commands, config.production, config.waitReplicas),
    leaveServer: (reason) => redis.leaveServer(reason),
    onInfo: (info) => memoryGuard.observe(info),
    log,
    limits: LIMITS,
  });
  const replication = new ReplicationWatch(
    redis.forCommands(),
    config.waitReplicas,
    {
      waitMs: LIMITS.replicationWaitMs,
      roundMs: LIMITS.replicationRoundMs,
      maxWaiting: LIMITS.replicatedWaiting,
    },
    () => gate.server,
  );
  const acknowledgement = new Acknowledgement(commits, replication, journal, LIMITS);
  const scripts = new ScriptRunner(commands, join(projectRoot(), 'lua'), gate);
  const sale = new SaleStore(
    scripts,
    {
      idempotencyTtlMs: config.idempotencyTtlMs,
      // A Redis that is nearly full accepts nothing new; payments, releases and replays go on.
      get journalLimitEntries() {
        return memoryGuard.full ? 0 : config.journalLimitEntries;
      },
      deviceQuota: LIMITS.deviceQuota,
      deviceWindowMs: LIMITS.deviceWindowMs,
      orderMemoryMs: LIMITS.orderMemoryMs,
      waitReplicas: config.waitReplicas,
    },
    promises,
    new ArchiveRecall(new ArchivedPeople(database), new CampaignArchive(scripts), () => clock.nowMs(), {
      ...LIMITS,
      idempotencyTtlMs: config.idempotencyTtlMs,
    }),
    { mayPack: () => watch.state?.mayPack ?? false, onBatch: (size) => metrics.claimBatch.observe(size) },
  );
  const admission = new LoadShedder(LIMITS);
  const attempts = new AttemptRecorder(new RedemptionAttempts(database), {
    enabled: config.attemptsKeepDays > 0,
    capacity: LIMITS.attemptsWaiting,
    batchRows: LIMITS.attemptsBatchRows,
    everyMs: LIMITS.attemptsEveryMs,
    nowMs: () => clock.nowMs(),
    onWritten: (count) => metrics.attemptsWritten.inc(count),
    onDropped: (count, reason) => metrics.attemptsDropped.inc({ reason }, count),
    onTrouble: (error) => log.warn({ reason: String(error) }, 'attempts wait for Postgres'),
  });
  const bans = new Bans({
    board: new BanStore(commands, subscriber, LIMITS.deviceBanMs, () => clock.nowMs()),
    table: new BansTable(database),
    nowMs: () => clock.nowMs(),
    log,
    onRefused: (kind) => metrics.blocked.inc({ kind }),
    onDropped: (reason) => metrics.ruleBansDropped.inc({ reason }),
    limits: LIMITS,
  });
  const terse = new FastRejects(log);
  const door = new BlocklistGuard(bans, terse, () => clock.nowMs());
  const onLimited = (policy: string) => metrics.limited.inc({ policy });
  const quota = (name: string, limit: number, seconds: number, counter = name) =>
    new Quota(commands, gate, name, limit, seconds, onLimited, counter);
  // Tokens are signed without Redis.
  const insuredQuota = (name: string, limit: number, seconds: number) =>
    new Quota(commands, gate, name, limit, seconds, onLimited, name, true);
  const policies = new PolicyCache(new CampaignPolicies(database), LIMITS.policiesEveryMs, log, {
    validatePerMinutePerUser: config.validatePerMinutePerUser,
    redeemPerMinutePerUser: config.redeemPerMinutePerUser,
    redeemPerMinutePerAddress: config.redeemPerMinutePerAddress,
  });
  const velocity = new Velocity(new VelocityStore(commands), () => clock.nowMs(), LIMITS);
  const codes = new CodesTable(database);
  const terms = new TermsCache(new CampaignTermsTable(database), {
    capacity: LIMITS.termsKept,
    freshMs: LIMITS.termsFreshMs,
    patienceMs: LIMITS.termsPatienceMs,
    nowMs: () => performance.now(),
  });
  const codePatterns = new CodePatterns(codes, log);
  const termsNotifications = new TermsNotifications(commands, subscriber);
  const sessions = new OperatorSessions(config.adminKeys, config.ticketKeys, LIMITS.operatorSessionMs, () =>
    clock.nowMs(),
  );
  const queues = new JobQueues(queueCommands, (queue, error) =>
    log.warn({ queue, reason: error.message }, 'a queue is in trouble'),
  );
  return {
    commands,
    subscriber,
    database,
    scripts,
    sale,
    clock,
    commits,
    acknowledgement,
    watch,
    queues,
    journal,
    gate,
    directory: new CampaignDirectory(sale),
    campaigns: new CampaignsTable(database),
    codes,
    codeFilter,
    codeTexts: new CodeTexts(codes),
    termsNotifications,
    codePatterns,
    transfers,
    terms,
    attempts,
    bans,
    door,
    quota,
    tokenQuota: insuredQuota('token', config.tokensPerMinutePerAddress, 60),
    couponTokenQuota: insuredQuota('coupon-token', config.tokensPerMinutePerAddress, 60),
    policies,
    velocity,
    redemptions: new RedemptionsTable(database),
    tickets: new Tickets(config.ticketKeys),
    apiKeys: new ApiKeys(
      config.adminKeys,
      config.serviceKeys,
      new LocalQuota(config.wrongKeysPerMinute, 60_000, LIMITS.callersKept),
      (policy) => metrics.limited.inc({ policy }),
      sessions,
    ),
    sessions,
    shopper: new ShopperIdentity(config.identity, clock),
    admission,
    start() {
      clock.start();
      admission.start();
      codeFilter.start();
      attempts.start();
      codePatterns.start();
      bans.start();
      policies.start();
      velocity.start();
      termsNotifications
        .listen(
          (product) => {
            terms.forget(product);
            policies.refresh(product).catch(() => policies.refreshSoon());
          },
          () => {
            terms.forgetAll();
            policies.refreshSoon();
          },
        )
        .catch((error: unknown) => log.warn({ err: error }, 'changes of terms cannot be heard of'));
      commits.start().catch((error: unknown) => log.warn({ err: error }, 'commits cannot be watched'));
      watch.start(gate);
    },
    async stop() {
      terse.flush();
      gate.stop();
      admission.stop();
      clock.stop();
      codePatterns.stop();
      bans.stop();
      policies.stop();
      velocity.stop();
      await queues.close().catch(() => {});
      await codeFilter.stop();
      await attempts.stop(LIMITS.attemptsStopMs);
      await watch.stop();
      await Promise.all([database, transfers, filterDatabase, historyDatabase].map((pool) => pool.close()));
      redis.close();
    },
  };
}

function createRoutes(config: Config, log: Log, metrics: Metrics, parts: Parts): Route[] {
  const attestation = new Attestation(config.attestationKeys);
  metrics.observe('checkouts_in_flight', 'Checkouts that wait for Redis now', () => parts.admission.inFlight);
  metrics.observe('bans', 'Bans and allowances that a process holds', () => parts.bans.size, 'max');
  metrics.observe(
    'event_loop_lag_ms',
    'Lag of the event loop, median of the last 100 ms; of the process that has most',
    () => parts.admission.lagMs,
    'max',
  );
  observeJournal(metrics, parts);
  const claim = new Claim(parts.sale, parts.tickets, parts.acknowledgement, LIMITS);
  const checkout = new Checkout(claim, parts.codeTexts, parts.terms);
  const finder = new CodeResolver(
    parts.codeFilter,
    new CodeLookup(parts.codes),
    parts.directory,
    parts.terms,
    parts.codePatterns,
  );
  const oneTimeTokens = new OneTimeTokens(config.ticketKeys);
  observeCodeFilter(metrics, parts.codeFilter);
  const campaigns = new Campaigns(
    parts.database,
    parts.campaigns,
    parts.sale,
    parts.queues,
    parts.commits,
    parts.acknowledgement,
    parts.codes,
    new CodeNotifications(parts.commands, LIMITS),
    parts.termsNotifications,
    parts.policies,
    { ...LIMITS, mayDemandPlatform: Object.values(config.platforms).some((platform) => platform !== null) },
  );
  const codes = new Codes({
    ...parts,
    jobs: new CodeJobs(parts.database),
    transferJobs: new CodeJobs(parts.transfers),
    limits: LIMITS,
  });
  const { quota } = parts;
  const perUser = (name: string, limit: number) =>
    new CampaignQuota((wanted, counter) => quota(name, wanted, 60, counter), name, limit);
  const guards = createGuards(config, log, metrics, parts, quota);
  return [
    ...tokenRoutes({
      ...parts,
      issuer: new TokenIssuer(attestation, {
        0: selfDeclared,
        1: proofOfWork(guards.challenges),
        2: platformAttested(guards.platform),
      }),
      wrongProofs: new LocalQuota(LIMITS.wrongProofsPerMinute, 60_000, LIMITS.callersKept),
      storm: new TokenSurge(parts.policies, parts.velocity, {
        freePerMinute: config.freeTokensPerMinute,
        freeInPeacePerMinute: Math.max(config.freeTokensPerMinute, LIMITS.tokensFreeInPeace),
        velocityFloorPerMinute: LIMITS.velocityFloorPerMinute,
      }),
    }),
    checkoutRoute({ ...parts, ...guards, checkout, attestation, metrics, log }),
    ...couponRoutes({
      ...parts,
      ...guards,
      validateQuota: perUser('validate', config.validatePerMinutePerUser),
      guesses: new LocalQuota(LIMITS.guessesUnnoticed, 60_000, LIMITS.callersKept),
      unknownCodes: new LocalQuota(config.unknownCodesPerMinute, 60_000, LIMITS.callersKept),
      redeemQuota: perUser('redeem', config.redeemPerMinutePerUser),
      finder,
      redemption: new Redemption(claim, parts.terms, oneTimeTokens),
      validation: new Validation(parts.sale),
      oneTimeTokens,
      attestation,
      tokenQuota: parts.couponTokenQuota,
      metrics,
      log,
      limits: LIMITS,
    }),
    ...paymentRoutes({ ...parts, metrics, log }),
    campaignViewRoute(parts),
    queueStatusRoute({ ...parts, quota: quota('poll', config.pollsPer10sPerCaller, 10) }),
    leaveRoute({ ...parts, log }),
    ...campaignRoutes({ ...parts, campaigns, table: parts.campaigns, log }),
    statsRoute({ ...parts, campaigns }),
    redemptionsRoute(campaigns, parts.redemptions, parts.apiKeys),
    duplicatePaymentsRoute({ ...parts, campaigns, duplicatePayments: new DuplicatePayments(parts.database) }),
    ...codeRoutes({
      campaigns,
      codes,
      transferCodes: new CodesTable(parts.transfers),
      apiKeys: parts.apiKeys,
      log,
      limits: LIMITS,
    }),
    ...webhookRoutes({
      webhooks: new Webhooks(parts.database, new WebhookEndpoints(parts.database), {
        allowPrivate: config.webhookAllowPrivate,
        maxEndpoints: LIMITS.webhookEndpoints,
      }),
      apiKeys: parts.apiKeys,
      log,
    }),
    ...banRoutes({
      desk: new BanDesk(new BansTable(parts.database), parts.bans, log, () => parts.clock.nowMs()),
      apiKeys: parts.apiKeys,
      log,
    }),
    ...sessionRoutes({
      ...parts,
      logins: new LocalQuota(config.wrongLoginsPerMinute, 60_000, LIMITS.callersKept),
      onLimited: (policy) => metrics.limited.inc({ policy }),
      log,
    }),
    lineRoute({ ...parts, campaigns }),
    overviewRoute({
      ...parts,
      overview: new OverviewReader({
        ...parts,
        campaigns,
        table: parts.campaigns,
        relay: new RelayLease(parts.commands, ''),
      }),
    }),
    ...jobBoardRoutes(parts.queues, parts.apiKeys),
    reconcileRoute({ ...parts, campaigns, answers: new JobResults(parts.commands), limits: LIMITS }),
  ];
}

type MakeQuota = (name: string, limit: number, seconds: number, counter?: string) => Quota;

/** The guards that contracts name. */
function createRouteGuards({ door, tokenQuota, couponTokenQuota }: Parts): Record<GuardName, Guard> {
  // Documents of hundreds of kilobytes that need no key.
  const documentQuota = new LocalQuota(LIMITS.documentsPer10s, 10_000, LIMITS.callersKept);
  return {
    network_ban: (req, res) => door.refusesNetwork(req, res),
    token_quota: (req, res) => door.refusesFlood(req, res, tokenQuota),
    coupon_token_quota: (req, res) => door.refusesFlood(req, res, couponTokenQuota),
    document_quota: (req, res) => door.refusesBeyond(req, res, 'documents', documentQuota),
  };
}

/** What checkout and coupons are guarded by alike. */
function createGuards(config: Config, log: Log, metrics: Metrics, parts: Parts, quota: MakeQuota) {
  const { bans, clock, commands: redis, gate, velocity } = parts;
  const nowMs = () => clock.nowMs();
  const challenges = new Challenges({
    keys: config.attestationKeys,
    redis,
    gate,
    nowMs,
    perSecond: (product) => velocity.perSecond(product),
    onOutcome: (outcome) => metrics.challenges.inc({ outcome }),
    limits: LIMITS,
  });
  const platform = createPlatformAttestation(config, metrics, parts, challenges);
  const [attestationKey] = config.attestationKeys;
  if (!attestationKey) throw new Error('at least one attestation key is needed');
  const risk = new Risk({
    counts: new AccountCounts(redis, attestationKey.key, LIMITS),
    gate,
    bans,
    nowMs,
    log,
    onVerdict: (rule, verdict, mode) => metrics.riskVerdicts.inc({ rule, verdict, mode }),
    limits: LIMITS,
  });
  const perAddress = (name: string, perMinute: number) =>
    new CampaignQuota(
      (limit, counter) => quota(name, limit * LIMITS.addressCountedTimes, 60, counter),
      name,
      perMinute,
    );
  const addressLimits: RiskGateDeps['addressLimits'] = {
    checkout: {
      rule: 'checkout_per_address',
      quota: perAddress('checkout-address', config.checkoutPerMinutePerAddress),
      limitOf: ({ checkoutPerMinutePerAddress }) => checkoutPerMinutePerAddress,
      why: 'Many checkouts have come from this address.',
    },
    redeem: {
      rule: 'redeem_per_address',
      quota: perAddress('redeem-address', config.redeemPerMinutePerAddress),
      limitOf: ({ redeemPerMinutePerAddress }) => redeemPerMinutePerAddress,
      why: 'Many codes have been tried from this address.',
    },
  };
  return {
    challenges,
    platform,
    entry: new RiskGate({
      remembers: (user, key) => parts.sale.remembers(user, key),
      risk,
      bans,
      challenges,
      platform,
      addressLimits,
      nowMs,
      limits: LIMITS,
    }),
    failures: new FailedAttemptLimiter(redis, bans, log, LIMITS),
  };
}

function createPlatformAttestation(
  { attestationKeys, platforms }: Config,
  metrics: Metrics,
  { clock, commands, gate }: Parts,
  challenges: Challenges,
): PlatformAttestation {
  const nowMs = () => clock.nowMs();
  const { appAttest, playIntegrity } = platforms;
  const keys = new AttestedKeys(commands, gate, LIMITS.attestedKeyMs);
  return new PlatformAttestation({
    nonces: new PlatformNonces(attestationKeys, nowMs, LIMITS.challengeLifeMs),
    challenges,
    appAttest: appAttest && new AppAttest(appAttest, keys),
    playIntegrity: playIntegrity && new PlayIntegrity(playIntegrity, nowMs, LIMITS.challengeLifeMs),
    onOutcome: (outcome) => metrics.challenges.inc({ outcome: `platform_${outcome}` }),
  });
}

/** Every process sees the same journal, so the largest of what they say is the one. */
function observeJournal(metrics: Metrics, { journal, clock }: Parts): void {
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
