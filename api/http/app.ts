import { createServer, IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { uuidv7 } from 'uuidv7';
import { LIMITS } from '../../shared/config/limits.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Tracing } from '../../shared/observability/tracing.js';
import { Cors } from './cors.js';
import { isLongRequest } from './long-requests.js';
import { Pipelines } from './pipeline.js';
import { type ProblemEdge, unavailable } from './problem.js';
import { respondRaw } from './raw-response.js';
import { RequestScheduler } from './request-scheduler.js';
import { beginExchange } from './respond.js';
import type { Route } from './route.js';
import { traceRequest } from './trace-request.js';
import { knownQuery, requireKnownQuery } from './unknown-fields.js';
import { wrongMethod, wrongRequest } from './wrong-request.js';

/** `socketPath`: the path of WebSockets, which other requests reach by mistake. */
export type AppOptions = { trustProxy: number; socketPath?: string };

/** Finds the route whose path equals the path of the request; undefined = Express has to match it. */
export type ExactRoutes = (req: Request) => Route | undefined;

export function exactRoutes(routes: readonly Route[]): ExactRoutes {
  // By method first: a combined key would allocate a string for every request.
  const byMethod = new Map<string, Map<string, Route>>();
  for (const route of routes) {
    const { method, path } = route.contract;
    if (/[:*]/.test(path)) continue;
    const byPath = byMethod.get(method.toUpperCase()) ?? new Map<string, Route>();
    byMethod.set(method.toUpperCase(), byPath.set(path, route));
  }
  return (req) => {
    const query = req.url.indexOf('?');
    return byMethod.get(req.method)?.get(query < 0 ? req.url : req.url.slice(0, query));
  };
}

/** Whether a route needs nothing of Express: neither parameters of its path nor a check of the query. */
const isServedExactly = ({ contract }: Route, req: Request) =>
  req.url === contract.path || knownQuery(contract) === null;

/**
 * Serves a call whose path is that of its route and bypasses Express, whose walk through the list of routes costs a
 * tenth of a checkout (docs/decisions/0005-http-edge.md).
 */
function serveExactly(route: Route, req: Request, res: Response, edge: ProblemEdge): void {
  req.routePath = route.contract.path;
  // A handler that is not async may throw.
  try {
    route.handle(req, res)?.catch((error: unknown) => edge.respond(error, req, res));
  } catch (error) {
    edge.respond(error, req, res);
  }
}

/**
 * Mounts the routes on an Express app. Other methods of a known path get 405, unknown paths get 404, and the edge
 * responds to every error.
 */
export function createApp(routes: readonly Route[], edge: ProblemEdge, options: AppOptions): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', 'simple');
  app.set('trust proxy', options.trustProxy);
  app.set('case sensitive routing', true);
  app.set('strict routing', true);

  const methodsOf = new Map<string, string[]>();
  for (const route of routes) {
    const { method, path } = route.contract;
    methodsOf.set(path, [...(methodsOf.get(path) ?? []), method.toUpperCase()]);
    const known = knownQuery(route.contract);
    app[method](path, (req: Request, res: Response) => {
      req.routePath = path;
      req.contract = route.contract;
      if (route.guard?.(req, res)) return;
      if (known) requireKnownQuery(known, req.query);
      return route.handle(req, res);
    });
  }
  for (const [path, methods] of methodsOf) {
    const allow = (methods.includes('GET') ? [...methods, 'HEAD'] : methods).join(', ');
    app.all(path, (req: Request) => {
      req.routePath = path;
      throw wrongMethod(req, allow);
    });
  }
  const { socketPath } = options;
  if (socketPath !== undefined)
    app.all(socketPath, (req: Request) => {
      req.routePath = socketPath;
      if (req.method !== 'GET') throw wrongMethod(req, 'GET');
      throw new Problem('invalid_request', 'Connect to this path with a WebSocket.');
    });
  app.use(() => {
    throw new Problem('not_found', 'No resource exists at this path.');
  });
  const onError: ErrorRequestHandler = (error, req, res, _next) => edge.respond(error, req, res);
  app.use(onError);
  return app;
}

/**
 * Whose turn a request waits for: the name of its network, and that of the wide network. `networkOf`: the wide network
 * of a connection; null = several clients share it.
 */
export type TurnsOf = {
  lineOf: (req: Request) => string;
  wideOf: (network: string) => string;
  networkOf: (socket: Socket) => string | null;
};

/**
 * Creates the HTTP server in front of the app. Its request and response objects are created with the app's prototypes.
 * Otherwise Express sets the prototypes on every request, which costs more than the rest of its work
 * (docs/decisions/0005-http-edge.md).
 */
export function createHttpServer(
  app: Express,
  edge: ProblemEdge,
  metrics: Metrics,
  isDraining: () => boolean,
  exact: ExactRoutes,
  cors: Cors = new Cors([]),
  tracing: Tracing | null = null,
  { lineOf, wideOf, networkOf }: TurnsOf = { lineOf: () => '', wideOf: (network) => network, networkOf: () => null },
): Server {
  // Classes tell V8 how many fields an object will have. Otherwise each object grows by three fields at a time.
  class BornRequest extends IncomingMessage {}
  class BornResponse extends ServerResponse {}
  Object.setPrototypeOf(BornRequest.prototype, app.request);
  Object.setPrototypeOf(BornResponse.prototype, app.response);
  app.request = BornRequest.prototype as unknown as Request;
  app.response = BornResponse.prototype as unknown as Response;

  onlyWebSocketsUpgrade(app);

  function observe(this: Response): void {
    const { method, routePath, startedAt, socket } = this.req;
    const seconds = (performance.now() - startedAt) / 1000;
    if (routePath) metrics.observeRequest(method, routePath, this.statusCode, seconds);
    else metrics.observeRequest('none', 'none', this.statusCode, seconds);
    pipelines.finished(socket);
  }
  const scheduler = new RequestScheduler(LIMITS.http.requestsPerTurn, wideOf, () => pipelines.readHeld());
  function finish(this: Response): void {
    pipelines.finished(this.req.socket);
  }
  const begin = (req: Request, res: Response, wrong: Problem | null) => {
    // While draining, the server closes each connection after its response.
    if (isDraining()) res.shouldKeepAlive = false;
    req.cors = cors.fieldsOf(req);
    if (cors.preflight(req, res)) {
      res.on('finish', finish);
      return;
    }
    const route = exact(req);
    req.contract = route?.contract ?? null;
    // Guards run first, so that a rejected request costs the server as little as possible.
    if (route?.guard?.(req, res)) {
      res.on('finish', finish);
      return;
    }
    beginExchange(req);
    if (tracing !== null) traceRequest(tracing, req, res);
    // A response finishes once, so `on` is enough; `once` would allocate a wrapper.
    res.on('finish', observe);
    if (wrong) edge.respond(wrong, req, res);
    else if (route && isServedExactly(route, req)) serveExactly(route, req, res, edge);
    else app(req, res);
  };
  // Refusals wait for a turn too, because a flood of them takes as long as one of calls.
  const take = (req: Request, res: Response, expectationMet: boolean) => {
    req.startedAt = performance.now();
    const isFull = scheduler.waiting >= LIMITS.http.requestsWaiting;
    if (isFull && scheduler.hasShareOf(LIMITS.http.requestsWaiting, lineOf(req))) begin(req, res, unavailable());
    else
      scheduler.take(
        (done) => {
          if (done) res.on('close', done);
          begin(req, res, wrongRequest(req, expectationMet));
        },
        () => lineOf(req),
      );
  };
  const serve = (incoming: IncomingMessage, outgoing: unknown, expectationMet: boolean) =>
    pipelines.take(incoming, () => take(incoming as Request, outgoing as Response, expectationMet));
  const server = createServer(
    {
      IncomingMessage: BornRequest,
      ServerResponse: BornResponse as never,
      maxHeaderSize: LIMITS.http.headerBytes,
      headersTimeout: LIMITS.http.headersTimeoutMs,
      requestTimeout: LIMITS.http.requestTimeoutMs,
      connectionsCheckingInterval: LIMITS.http.connectionCheckMs,
      keepAliveTimeout: LIMITS.http.keepAliveTimeoutMs,
      // Node would respond to a missing Host without a body; `wrongRequest` rejects it with a problem document.
      requireHostHeader: false,
      noDelay: true,
    },
    (incoming, outgoing) => serve(incoming, outgoing, true),
  );
  const pipelines = new Pipelines(server, {
    inFlight: LIMITS.http.requestsPerConnection,
    waiting: LIMITS.http.requestsWaiting,
    isBusy: () => scheduler.waiting > 0,
    networkOf,
    waitingOf: (network) => scheduler.waitingOf(network),
    read: () => (scheduler.isShared ? LIMITS.http.requestsRead : Number.POSITIVE_INFINITY),
  });
  server.maxConnections = LIMITS.http.connections;
  server.timeout = LIMITS.http.idleTimeoutMs;
  server.on('connection', () => scheduler.accepted());
  server.on('checkExpectation', (incoming, outgoing) => serve(incoming, outgoing, false));
  server.on('clientError', rejectMalformed);
  return server;
}

/**
 * Limits upgrades to WebSockets. Node emits `upgrade` for a request with any `Upgrade` field. A server may ignore an
 * offer of HTTP/2, which Java's client sends with every request, and serve the request as usual.
 */
function onlyWebSocketsUpgrade(app: Express): void {
  const offered = Symbol('upgrade offered');
  type Offering = IncomingMessage & { [offered]?: boolean };
  Object.defineProperty(app.request, 'upgrade', {
    configurable: true,
    get(this: Offering) {
      return this[offered] === true && this.headers.upgrade?.toLowerCase() === 'websocket';
    },
    set(this: Offering, value: boolean) {
      this[offered] = value;
    },
  });
}

/** Sends a problem document for input that Node cannot parse as HTTP, if the connection is still writable. */
function rejectMalformed(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  // Node reports the timeout once per request. A long request has its own limit (`allowLongRequest`).
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isLongRequest(socket)) return;
  const problem =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? new Problem('headers_too_large', `The header fields exceed ${LIMITS.http.headerBytes} bytes.`)
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? new Problem('request_timeout', 'The request did not arrive in time.')
        : new Problem('invalid_request', 'The request is not valid HTTP.');
  respondRaw(socket, problem, uuidv7());
}
