import { LIMITS } from '../../shared/config/limits.js';
import { BansTable } from '../../shared/postgres/bans.js';
import { CampaignsTable } from '../../shared/postgres/campaigns.js';
import { CodeJobs } from '../../shared/postgres/code-jobs.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { JobQueues } from '../../shared/queues/queues.js';
import { CodeNotifications } from '../../shared/redis/code-notifications.js';
import { JobResults } from '../../shared/redis/job-results.js';
import { RelayLease } from '../../shared/redis/relay-lease.js';
import { CampaignPlacement } from '../../shared/shards/campaign-placement.js';
import type { Claims } from '../claim/claim.module.js';
import type { Core } from '../core.js';
import type { Guards } from '../guards/guards.module.js';
import { LocalQuota } from '../guards/limits/local-quota.js';
import type { Route } from '../http/route.js';
import { BanDesk } from './bans.js';
import { banRoutes } from './bans.route.js';
import { Campaigns } from './campaigns.js';
import { campaignRoutes } from './campaigns.route.js';
import { Codes } from './codes.js';
import { codeRoutes } from './codes.route.js';
import { DuplicatePayments } from './duplicate-payments.js';
import { duplicatePaymentsRoute } from './duplicate-payments.route.js';
import { jobBoardRoutes } from './job-board.route.js';
import { connectReplica, type Replica } from './large-reads.js';
import { lineRoute } from './line.route.js';
import { OverviewReader } from './overview.js';
import { overviewRoute } from './overview.route.js';
import { reconcileRoute } from './reconcile.route.js';
import { redemptionsRoute } from './redemptions.route.js';
import { sessionRoutes } from './session.route.js';
import { statsRoute } from './stats.route.js';
import { Webhooks } from './webhooks.js';
import { webhookRoutes } from './webhooks.route.js';

/** The routes of operators. */
export function adminModule(core: Core, guards: Guards, claims: Claims): Route[] {
  const { config, log, clock, shards, database, sales } = core;
  const { apiKeys } = guards.auth;
  const queues = connectQueues(core);
  const table = new CampaignsTable(database);
  const redemptions = new RedemptionsTable(database);
  const campaigns = createCampaigns(core, guards, claims, { table, queues });
  const replica = connectReplica({ url: config.databaseReadUrl, database, openPool: core.openPool, log });
  const overview = new OverviewReader({
    campaigns,
    table,
    redemptions,
    sales,
    queues,
    shards: shards.all.map(({ index, commands, journal }) => ({ index, journal, relay: new RelayLease(commands, '') })),
    clock,
  });
  const webhooks = new Webhooks(database, new WebhookEndpoints(database), {
    allowPrivate: config.webhookAllowPrivate,
    maxEndpoints: LIMITS.webhookEndpoints,
  });
  const desk = new BanDesk(new BansTable(database), guards.abuse.bans, log, () => clock.nowMs());
  const answers = new JobResults(shards.home.commands);
  return [
    ...campaignRoutes({ campaigns, table, apiKeys, clock, log }),
    statsRoute({ campaigns, shards, redemptions, apiKeys }),
    redemptionsRoute(
      campaigns,
      replica.readsOf(database, (reads) => new RedemptionsTable(reads)),
      apiKeys,
    ),
    duplicatePaymentsRoute({ campaigns, duplicatePayments: new DuplicatePayments(database), apiKeys }),
    ...createCodeRoutes(core, guards, { campaigns, queues, replica }),
    ...webhookRoutes({ webhooks, apiKeys, log }),
    ...banRoutes({ desk, apiKeys, log }),
    ...createSessionRoutes(core, guards),
    lineRoute({ campaigns, sales, apiKeys }),
    overviewRoute({ overview, sales, apiKeys }),
    ...jobBoardRoutes(queues, apiKeys),
    reconcileRoute({ campaigns, database, queues, answers, apiKeys, limits: LIMITS }),
  ];
}

function connectQueues({ shards, life, log }: Core): JobQueues {
  const { redis } = shards.home;
  // BullMQ defines sixty commands on its connection, which ioredis copies into every pipeline that it begins there.
  const queues = new JobQueues(redis.forQueues(), redis.prefix, (queue, error) =>
    log.warn({ queue, reason: error.message }, 'a queue reported an error'),
  );
  life.add('job queues', { stop: () => queues.close().catch(() => {}) });
  return queues;
}

function createCampaigns(
  { name, config, shards, database, sales }: Core,
  { limits: { policies } }: Guards,
  { acknowledgements, termsNotifications }: Claims,
  { table, queues }: { table: CampaignsTable; queues: JobQueues },
): Campaigns {
  return new Campaigns({
    database,
    table,
    sales,
    placement: new CampaignPlacement({
      database,
      map: shards.map,
      histories: shards.home.histories,
      processId: name,
      aliveMs: () => shards.home.watch.aliveMs,
    }),
    queues,
    commitsOf: (product) => shards.of(product).commits,
    acknowledgements,
    codes: new CodesTable(database),
    codeNotifications: new CodeNotifications(shards.home.commands, LIMITS),
    termsNotifications,
    policies,
    limits: { ...LIMITS, mayDemandPlatform: Object.values(config.platforms).some((platform) => platform !== null) },
  });
}

function createCodeRoutes(
  { log, database, openPool }: Core,
  { auth: { apiKeys } }: Guards,
  { campaigns, queues, replica }: { campaigns: Campaigns; queues: JobQueues; replica: Replica },
): Route[] {
  // A pool of its own: uploads and exports hold a connection for as long as their client takes.
  const transfers = openPool({
    name: 'doorbuster-api-transfers',
    connections: LIMITS.transfers,
    statementMs: LIMITS.transferMs,
  });
  const codes = new Codes({
    database,
    jobs: new CodeJobs(database),
    transferJobs: new CodeJobs(transfers),
    codes: new CodesTable(database),
    queues,
    limits: LIMITS,
  });
  const transferCodes = replica.transfersOf(transfers, (reads) => new CodesTable(reads));
  return codeRoutes({ campaigns, codes, transferCodes, apiKeys, log, limits: LIMITS });
}

function createSessionRoutes({ config, metrics, log }: Core, { auth: { apiKeys, sessions } }: Guards): Route[] {
  return sessionRoutes({
    sessions,
    apiKeys,
    logins: new LocalQuota(config.wrongLoginsPerMinute, 60_000, LIMITS.callersKept),
    onLimited: (policy) => metrics.limited.inc({ policy }),
    log,
  });
}
