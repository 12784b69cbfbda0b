import type { Request } from 'express';
import { LIMITS } from '../../shared/config/limits.js';
import { ACTORS } from '../../shared/domain/actors.js';
import { FIRST_BUCKET, MAX_BUCKETS } from '../../shared/domain/buckets.js';
import { canIssue } from '../../shared/domain/regions.js';
import { carryTerms } from '../../shared/image/carry-terms.js';
import { ApiKeysTable } from '../../shared/postgres/api-keys.js';
import { BansTable } from '../../shared/postgres/bans.js';
import { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { CodeJobs } from '../../shared/postgres/code-jobs.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { OperatorSessionsTable } from '../../shared/postgres/operator-sessions.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { SaleMinutes } from '../../shared/postgres/sale-minutes.js';
import { WebhookAttempts } from '../../shared/postgres/webhook-attempts.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { WebhookParking } from '../../shared/postgres/webhook-parking.js';
import type { JobQueues } from '../../shared/queues/queues.js';
import { CodeNotifications } from '../../shared/redis/code-notifications.js';
import { JobResults } from '../../shared/redis/job-results.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import { keepInstallation } from '../../shared/shards/keep-installation.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import type { Route } from '../http/route.js';
import { auditRoute } from './audit.route.js';
import { BanDesk } from './bans.js';
import { banRoutes } from './bans.route.js';
import { CampaignActions } from './campaign-actions.js';
import { CampaignPlacement } from './campaign-placement.js';
import type { OwnRegion } from './campaign-regions.js';
import { Campaigns } from './campaigns.js';
import { campaignRoutes } from './campaigns.route.js';
import { Codes } from './codes.js';
import { codeRoutes } from './codes.route.js';
import { DuplicatePayments } from './duplicate-payments.js';
import { duplicatePaymentsRoute } from './duplicate-payments.route.js';
import { hideRoutes } from './hide.route.js';
import { historyRoute } from './history.route.js';
import { jobBoardRoutes } from './job-board.route.js';
import { KeyDesk } from './keys.js';
import { keyRoutes } from './keys.route.js';
import { connectReplica, type Replica } from './large-reads.js';
import { lineRoute } from './line.route.js';
import { LoginCookies, LoginDesk } from './login.js';
import { loginRoutes } from './login.route.js';
import { Issuer } from './oidc.js';
import { OverviewReader } from './overview.js';
import { overviewRoute } from './overview.route.js';
import { queueRoute } from './queue.route.js';
import { reconcileRoute } from './reconcile.route.js';
import { redemptionsRoute } from './redemptions.route.js';
import { reportRoute } from './report.route.js';
import { sessionRoutes } from './session.route.js';
import { statsRoute } from './stats.route.js';
import { termsHistoryRoute } from './terms-history.js';
import { TotalsReader } from './totals.js';
import { WebhookReplays } from './webhook-replays.js';
import { Webhooks } from './webhooks.js';
import { webhookRoutes } from './webhooks.route.js';

/**
 * The routes of operators.
 * @param others what the other regions sell; null = this installation is the only one
 */
export function adminModule(
  core: Core,
  guards: Guards,
  claims: Claims,
  others: Omit<OwnRegion, 'name' | 'names'> | null,
): Route[] {
  const { config, log, clock, shards, database, sales, queues, queueStates } = core;
  const { apiKeys } = guards.auth;
  const table = new CampaignsTable(database);
  const redemptions = new RedemptionsTable(database);
  const actions = new CampaignActions({
    ...{
      table,
      sales,
      queues,
      acknowledgements: claims.acknowledgements,
      limits: { ...LIMITS.claims, ...LIMITS.line },
    },
    shardOf: (product) => shards.map.shardOf(product, FIRST_BUCKET),
    commitsOf: (product, bucket) => shards.of(product, bucket).commits,
  });
  const campaigns = createCampaigns(core, guards, claims, { table, actions, others });
  const replica = connectReplica({ url: config.databaseReadUrl, database, openPool: core.openPool, log });
  const minutes = replica.readsOf(database, (reads) => new SaleMinutes(reads));
  const overview = new OverviewReader({
    campaigns,
    table,
    redemptions,
    sales,
    queueStates,
    shards: shards.all,
    clock,
    totals: new TotalsReader(database, sales, () => clock.nowMs()),
  });
  const desk = new BanDesk(new BansTable(database), guards.abuse.bans, log, () => clock.nowMs());
  const answers = new JobResults(shards.home.commands);
  return [
    ...campaignRoutes({
      ...{ campaigns, actions, table, apiKeys, clock, log },
      configured: {
        shoppersProve: config.identity.mode !== 'gateway',
        personsSolve: config.challengeProvider !== null,
      },
    }),
    ...hideRoutes({ campaigns, table, apiKeys, log }),
    historyRoute({ campaigns, database, reads: minutes, apiKeys, nowMs: () => clock.nowMs() }),
    reportRoute({ campaigns, reads: minutes, apiKeys }),
    termsHistoryRoute({ campaigns, database, apiKeys }),
    statsRoute({ campaigns, sales, shards, redemptions, apiKeys }),
    redemptionsRoute({
      campaigns,
      reads: replica.readsOf(database, (reads) => new RedemptionsTable(reads)),
      database,
      apiKeys,
    }),
    duplicatePaymentsRoute({ campaigns, duplicatePayments: new DuplicatePayments(database), apiKeys }),
    ...createCodeRoutes(core, guards, { campaigns, queues, replica }),
    ...createWebhookRoutes(core, guards, { table, queues }),
    ...banRoutes({ desk, apiKeys, log }),
    ...createSessionRoutes(core, guards),
    ...createKeyRoutes(core, guards),
    auditRoute({ database, apiKeys }),
    lineRoute({ campaigns, sales, apiKeys }),
    overviewRoute({ overview, sales, apiKeys, degradation: guards.limits.degradation }),
    queueRoute({ queues, database, apiKeys, log }),
    ...jobBoardRoutes(queues, apiKeys),
    reconcileRoute({ campaigns, database, queues, answers, apiKeys, limits: LIMITS.jobs }),
  ];
}

function createCampaigns(
  { name, config, shards, database, sales }: Core,
  { limits: { policies } }: Guards,
  { termsNotifications }: Claims,
  {
    table,
    actions,
    others,
  }: {
    table: CampaignsTable;
    actions: CampaignActions;
    others: Omit<OwnRegion, 'name' | 'names'> | null;
  },
): Campaigns {
  return new Campaigns({
    database,
    table,
    sales,
    placement: new CampaignPlacement({
      database,
      map: shards.map,
      histories: shards.home.histories,
      keepInRedis: async (version) => {
        const installation = { shards: config.shards, version };
        await Promise.allSettled(shards.all.map(({ scripts }) => keepInstallation(scripts, installation)));
      },
      processId: name,
      aliveMs: () => shards.home.watch.aliveMs,
    }),
    actions,
    carryTerms: ({ no, productId }) =>
      carryTerms(database, new SaleCopy(shards.of(productId, FIRST_BUCKET).commands), no, productId),
    buckets: new CampaignBuckets(database),
    codes: new CodesTable(database),
    codeNotifications: new CodeNotifications(shards.home.commands, LIMITS.codes),
    termsNotifications,
    policies,
    supported: {
      mayDemandPlatform: Object.values(config.platforms).some((platform) => platform !== null),
      mayDemandIdentity: config.identity.mode !== 'gateway',
      shards: config.shards,
      mayUseHttp: !config.production,
      maySignLinks: config.payLinkKeys.length > 0,
      imageOrigins: config.imageOrigins,
    },
    region: config.regions && others && { name: config.regions.own, names: config.regions.layout.names, ...others },
  });
}

function createCodeRoutes(
  { config, log, database, openPool }: Core,
  { auth: { apiKeys } }: Guards,
  { campaigns, queues, replica }: { campaigns: Campaigns; queues: JobQueues; replica: Replica },
): Route[] {
  // A pool of its own: uploads and exports hold a connection for as long as their client takes.
  const transfers = openPool({
    name: 'doorbuster-api-transfers',
    connections: LIMITS.codes.transfers,
    statementMs: LIMITS.codes.transferMs,
  });
  const codes = new Codes({
    database,
    jobs: new CodeJobs(database),
    transferJobs: new CodeJobs(transfers),
    codes: new CodesTable(database),
    queues,
    canIssue: (prefix) => config.regions === null || canIssue(config.regions.own, prefix, config.regions.layout),
    limits: LIMITS.codes,
  });
  const transferCodes = replica.transfersOf(transfers, (reads) => new CodesTable(reads));
  return codeRoutes({ campaigns, database, codes, transferCodes, apiKeys, log, limits: LIMITS.codes });
}

function createWebhookRoutes(
  { config, database, clock, metrics, log }: Core,
  { auth: { apiKeys } }: Guards,
  { table: campaigns, queues }: { table: CampaignsTable; queues: JobQueues },
): Route[] {
  const webhooks = new Webhooks({
    database,
    endpoints: new WebhookEndpoints(database),
    replays: new WebhookReplays(),
    parking: new WebhookParking(database),
    attempts: new WebhookAttempts(database),
    campaigns,
    queues,
    clock,
    source: config.eventSource,
    limits: { ...LIMITS.webhooks, allowPrivate: config.webhookAllowPrivate, maxEndpoints: LIMITS.webhooks.endpoints },
  });
  return webhookRoutes({
    webhooks,
    apiKeys,
    tests: new LocalQuota(LIMITS.webhooks.testsPerMinute, 60_000, 1),
    onLimited: (policy) => metrics.limited.inc({ policy }),
    log,
  });
}

function createKeyRoutes({ config, database, clock, log }: Core, { auth }: Guards): Route[] {
  const configured = [...config.adminKeys, ...config.serviceKeys].map(({ name }) => name);
  const reserved = [...configured, ...Object.values(ACTORS)];
  const desk = new KeyDesk({
    table: new ApiKeysTable(database),
    cache: auth.storedKeys,
    reserved,
    nowMs: () => clock.nowMs(),
    log,
    limits: LIMITS.auth,
  });
  return keyRoutes({ desk, apiKeys: auth.apiKeys, log });
}

function createSessionRoutes(core: Core, { auth }: Guards): Route[] {
  const { config, metrics, log, database, clock } = core;
  const { apiKeys, sessions, named } = auth;
  const onLimited = (policy: string) => metrics.limited.inc({ policy });
  const logins = new LocalQuota(config.wrongLoginsPerMinute, 60_000, LIMITS.abuse.callersKept);
  const common = { sessions, maxBuckets: Math.min(config.shards, MAX_BUCKETS), logins, onLimited, log };
  if (!config.oidc || !named) return sessionRoutes({ ...common, endNamed: null });
  const nowMs = () => clock.nowMs();
  const table = new OperatorSessionsTable(database, LIMITS.auth.operatorIdleMs);
  const desk = new LoginDesk({ table, named, limits: LIMITS.auth });
  const endNamed = async (req: Request, name: string) => {
    const session = named.of(req);
    if (session) await desk.end(session.id, 'operator.logout', { name, requestId: req.requestId });
  };
  return [
    ...sessionRoutes({ ...common, endNamed }),
    ...loginRoutes({
      issuer: new Issuer({ config: config.oidc, production: config.production, nowMs, log, limits: LIMITS.auth }),
      desk,
      cookies: new LoginCookies(config.ticketKeys, LIMITS.auth.loginMs, nowMs),
      apiKeys,
      logins: new LocalQuota(LIMITS.auth.loginsPerMinute, 60_000, LIMITS.abuse.callersKept),
      returns: new LocalQuota(LIMITS.auth.returnsPerLogin, LIMITS.auth.loginMs, LIMITS.abuse.callersKept),
      onLimited,
      limits: LIMITS.auth,
      log,
    }),
  ];
}
