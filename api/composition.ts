import cluster from 'node:cluster';
import type { Server } from 'node:http';
import type { Config } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { serviceVersion } from '../shared/config/project-root.js';
import { inspectEngines } from '../shared/datastores/connect.js';
import { Lifecycle } from '../shared/observability/lifecycle.js';
import type { Log } from '../shared/observability/log.js';
import type { Stoppable } from '../shared/observability/shutdown.js';
import { CampaignsTable } from '../shared/postgres/campaigns.js';
import { liveWorkers } from '../shared/postgres/live-workers.js';
import { readPageLanguages } from '../shared/sale-page/language-files.js';
import { adminModule } from './admin/admin.module.js';
import { checkoutModule } from './checkout/checkout.module.js';
import { claimModule } from './claim/claim.module.js';
import { requirePayLinkKeys } from './claim/pay-link-keys.js';
import { startApiProcesses } from './cluster.js';
import { connect } from './core.js';
import { couponsModule } from './coupons/coupons.module.js';
import { turnsOf } from './guards/caller/shop-networks.js';
import { guardsModule } from './guards/guards.module.js';
import { shareConnections } from './guards/limits/connection-room.js';
import { createApp, createHttpServer, exactRoutes } from './http/app.js';
import { Cors } from './http/cors.js';
import { ProblemEdge } from './http/problem.js';
import { routesOfRole } from './http/process-role.js';
import { type Route, withGuards } from './http/route.js';
import { opsModule } from './ops/ops.module.js';
import { campaignViewRoute } from './pages/campaign-view.route.js';
import { docsRoutes } from './pages/docs.route.js';
import { errorRoutes } from './pages/errors.route.js';
import { landingRoute } from './pages/landing.route.js';
import { pageRoutes } from './pages/page.route.js';
import { PublicSales } from './pages/public-sales.js';
import { readServerPage } from './pages/server-page.js';
import { paymentModule } from './payment/payment.module.js';
import { pushModule } from './push/push.module.js';
import { SOCKET_PATH } from './realtime/gateway.js';
import { realtimeModule } from './realtime/realtime.module.js';
import { homeRequired } from './regions/home-required.js';
import { connectRegions, regionsModule } from './regions/regions.module.js';
import { listen } from './servers.js';
import { supportModule } from './support/support.module.js';
import { waitingRoomModule } from './waiting-room/waiting-room.module.js';

/**
 * Starts one API, or several processes of it.
 * @throws UnsuitableRedis when Redis is set up in a way that loses promises
 */
export async function start(config: Config, log: Log): Promise<Stoppable> {
  await inspectEngines(config, log, (database) => requirePayLinkKeys(config, log, database));
  return severalOf(config) ? startApiProcesses(config.apiProcesses, log) : startApi(config, log);
}

/** A process that starts others waits for them, and they have a deadline of their own. */
export function stopLimitMs(config: Config): number {
  return severalOf(config) ? LIMITS.shutdown.stopMs + 1_000 : LIMITS.shutdown.stopMs;
}

const severalOf = (config: Config) => config.apiProcesses > 1 && cluster.isPrimary;

/** Puts the modules of the API together and starts them. Each registers what it starts with the lifecycle. */
async function startApi(config: Config, log: Log): Promise<Stoppable> {
  const life = new Lifecycle(log);
  const core = await connect(config, log, life);
  const guards = guardsModule(core);
  const links = connectRegions(core);
  const claims = claimModule(core, guards, links && homeRequired(links));
  const regions = regionsModule(core, guards, claims, links);
  const publicSales = new PublicSales({ sales: core.sales, terms: claims.terms, clock: core.clock });
  const unguarded = [
    ...checkoutModule(core, guards, claims),
    ...couponsModule(core, guards, claims, regions?.isOfOther),
    ...paymentModule(core, guards, claims),
    campaignViewRoute(publicSales),
    ...waitingRoomModule(core, guards, claims),
    ...pushModule(core, guards),
    ...adminModule(core, guards, claims, regions?.others ?? null),
    ...(regions?.routes ?? []),
    ...supportModule(core, guards, claims),
  ];
  const { named } = guards.auth;
  const own = withGuards(named ? named.withSessions(unguarded) : unguarded, guards.byName);
  const documented = regions?.withOwners(own) ?? own;
  const routes = routesOfRole([...documented, ...(regions?.arrivals(own) ?? [])], config.apiRole);
  const { readiness, routes: ops } = opsModule(core, guards.limits, regions?.checks ?? null);
  const onOpsPort = config.opsPort === null ? () => false : isForOperatorsAlone;
  const described = [...documented, ...ops].filter((route) => !onOpsPort(route));
  const serverPage = await readServerPage();
  const docs = routesOfRole(
    [
      ...(await docsRoutes(described, serviceVersion())),
      ...errorRoutes(described, serverPage),
      landingRoute({
        ...{ page: serverPage, campaigns: new CampaignsTable(core.database), readiness, config },
        workers: () => liveWorkers(core.database),
        stock: (product) => core.sales.stock(product),
        version: serviceVersion(),
      }),
    ],
    config.apiRole,
  );
  const languages = readPageLanguages(config.pageLanguages);
  const pages = await pageRoutes({
    ...{ publicSales, languages, frameAncestors: config.frameAncestors, imageOrigins: config.imageOrigins },
    challengeSources: config.challengeProvider?.sources ?? [],
    pushKey: config.push?.publicKey ?? null,
  });

  const edge = new ProblemEdge(log, core.metrics);
  const cors = new Cors(config.shopOrigins, guards.abuse.rejects);
  const turns = turnsOf(config.shopNetworks, config.trustProxy);
  const serverOf = (shown: readonly Route[], exact: readonly Route[]): Server =>
    createHttpServer(
      createApp(shown, edge, { trustProxy: config.trustProxy, socketPath: SOCKET_PATH }),
      edge,
      core.metrics,
      () => readiness.draining,
      exactRoutes(exact),
      cors,
      core.tracing,
      turns,
    );
  const shownPages = routesOfRole(pages, config.apiRole);
  const shown = [...routes, ...ops, ...docs, ...shownPages].filter((route) => !onOpsPort(route));
  const exact = routes.filter((route) => !onOpsPort(route));
  const server = serverOf(withGuards(shown, guards.byName), exact);
  // With the pages of sales, which the page of operators links to.
  const operatorsRoutes = [...routes.filter(({ contract }) => contract.tag === 'admin'), ...ops, ...pages];
  const opsServer = config.opsPort === null ? null : serverOf(operatorsRoutes, []);
  shareConnections(server, core);
  const sockets = realtimeModule(core, guards, claims, cors);
  sockets.attach(server);

  await listen(core, { server, opsServer, readiness, sockets });
  await life.start();
  return life;
}

/**
 * Whether a separate listener for operators has this route alone. Both listeners report health, because each is probed.
 */
const isForOperatorsAlone = ({ contract: { path } }: Route): boolean =>
  path === '/metrics' || path.startsWith('/admin/queues');
