import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { join } from 'node:path';
import type { Config } from '../shared/config/config.js';
import { LIMITS } from '../shared/config/limits.js';
import { projectRoot } from '../shared/config/project-root.js';
import { inspectRedis } from '../shared/datastores/connect.js';
import { Lifecycle } from '../shared/observability/lifecycle.js';
import type { Log } from '../shared/observability/log.js';
import type { Stoppable } from '../shared/observability/shutdown.js';
import { adminModule } from './admin/admin.module.js';
import { checkoutModule } from './checkout/checkout.module.js';
import { claimModule } from './claim/claim.module.js';
import { startApiProcesses } from './cluster.js';
import { connect } from './core.js';
import { couponsModule } from './coupons/coupons.module.js';
import { guardsModule } from './guards/guards.module.js';
import { shareConnections } from './guards/limits/open-counts.js';
import { createApp, createHttpServer, exactRoutes } from './http/app.js';
import { Cors } from './http/cors.js';
import { ProblemEdge } from './http/problem.js';
import { type Route, withGuards } from './http/route.js';
import { opsModule } from './ops/ops.module.js';
import { campaignViewRoute } from './pages/campaign-view.route.js';
import { docsRoutes } from './pages/docs.route.js';
import { pageRoutes } from './pages/page.route.js';
import { paymentModule } from './payment/payment.module.js';
import { realtimeModule } from './realtime/realtime.module.js';
import { listen } from './servers.js';
import { waitingRoomModule } from './waiting-room/waiting-room.module.js';

/**
 * Starts one API, or several processes of it.
 * @throws UnsuitableRedis when Redis is set up in a way that loses promises
 */
export async function start(config: Config, log: Log): Promise<Stoppable> {
  await inspectRedis(config, log);
  return severalOf(config) ? startApiProcesses(config.apiProcesses, log) : startApi(config, log);
}

/** A process that starts others waits for them, and they have a deadline of their own. */
export function stopLimitMs(config: Config): number {
  return severalOf(config) ? LIMITS.stopMs + 1_000 : LIMITS.stopMs;
}

const severalOf = (config: Config) => config.apiProcesses > 1 && cluster.isPrimary;

/** Puts the modules of the API together and starts them. Each registers what it starts with the lifecycle. */
async function startApi(config: Config, log: Log): Promise<Stoppable> {
  const life = new Lifecycle(log);
  const core = connect(config, log, life);
  const guards = guardsModule(core);
  const claims = claimModule(core, guards);
  const unguarded = [
    ...checkoutModule(core, guards, claims),
    ...couponsModule(core, guards, claims),
    ...paymentModule(core, guards.auth, claims),
    campaignViewRoute({ sales: core.sales, terms: claims.terms, clock: core.clock }),
    ...waitingRoomModule(core, guards, claims),
    ...adminModule(core, guards, claims),
  ];
  const routes = withGuards(unguarded, guards.byName);
  const { readiness, routes: ops } = opsModule(core);
  const docs = await docsRoutes([...routes, ...ops], readVersion());
  const pages = await pageRoutes();

  const edge = new ProblemEdge(log, core.metrics);
  const cors = new Cors(config.shopOrigins, guards.abuse.rejects);
  const serverOf = (shown: readonly Route[], exact: readonly Route[]): Server =>
    createHttpServer(
      createApp(shown, edge, { trustProxy: config.trustProxy }),
      edge,
      core.metrics,
      () => readiness.draining,
      exactRoutes(exact),
      cors,
    );
  const onOpsPort = config.opsPort === null ? () => false : isForOperatorsAlone;
  const shown = [...routes, ...ops, ...docs, ...pages].filter((route) => !onOpsPort(route));
  const server = serverOf(withGuards(shown, guards.byName), routes);
  const operatorsRoutes = [...routes.filter(({ contract }) => contract.tag === 'admin'), ...ops, ...pages];
  const opsServer = config.opsPort === null ? null : serverOf(operatorsRoutes, []);
  if (config.trustProxy === 0) shareConnections(server, LIMITS.connectionsPerNetwork, core.metrics);
  const sockets = realtimeModule(core, guards.auth, claims, cors);
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

function readVersion(): string {
  const { version } = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8')) as { version: string };
  return version;
}
