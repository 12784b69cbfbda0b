import { createServer, IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { uuidv7 } from 'uuidv7';
import { LIMITS } from '../../shared/config/limits.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { Cors } from './cors.js';
import { isLongRequest } from './long-requests.js';
import { Pipelines } from './pipeline.js';
import { type ProblemEdge, unavailable } from './problem.js';
import { respondRaw } from './raw-response.js';
import { RequestScheduler } from './request-scheduler.js';
import { beginExchange } from './respond.js';
import type { Route } from './route.js';
import { knownQuery, requireKnownQuery } from './unknown-fields.js';
import { wrongRequest } from './wrong-request.js';

export type AppOptions = { trustProxy: number };

/** Finds the route that a request names exactly, as calls of the API do; undefined = Express has to look for it. */
export type ExactRoutes = (req: Request) => Route | undefined;

export function exactRoutes(routes: readonly Route[]): ExactRoutes {
  // By method first: a key made of both would be a new text for every request.
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

/**
 * Serves a POST without a query, which needs nothing of Express: walking its list of routes costs a tenth of a checkout
 * (docs/decisions/0005-http-edge.md).
 */
function serveExactly(route: Route, req: Request, res: Response, edge: ProblemEdge): void {
  req.routePath = route.contract.path;
  // A route that is no async function may throw.
  try {
    route.handle(req, res)?.catch((error: unknown) => edge.answer(error, req, res));
  } catch (error) {
    edge.answer(error, req, res);
  }
}

/** Puts the routes on an Express app: each path with its methods, 405 for the others, 404 for the rest, one error edge. */
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
      throw new Problem('method_not_allowed', `${req.method} is not possible here.`, { headers: { Allow: allow } });
    });
  }
  app.use(() => {
    throw new Problem('not_found', 'There is nothing at this path.');
  });
  const onError: ErrorRequestHandler = (error, req, res, _next) => edge.answer(error, req, res);
  app.use(onError);
  return app;
}

/**
 * The HTTP server in front of the app. Its request and response objects are born with the app's prototypes: Express sets
 * them on every request otherwise, which costs more than all the rest of it (docs/decisions/0005-http-edge.md).
 */
export function createHttpServer(
  app: Express,
  edge: ProblemEdge,
  metrics: Metrics,
  isDraining: () => boolean,
  exact: ExactRoutes,
  cors: Cors = new Cors([]),
): Server {
  // Classes, since the engine then knows how many fields an object will have; it would grow by three at a time otherwise.
  class BornRequest extends IncomingMessage {}
  class BornResponse extends ServerResponse {}
  Object.setPrototypeOf(BornRequest.prototype, app.request);
  Object.setPrototypeOf(BornResponse.prototype, app.response);
  app.request = BornRequest.prototype as unknown as Request;
  app.response = BornResponse.prototype as unknown as Response;

  onlyWebSocketsUpgrade(app);

  function observe(this: Response): void {
    const { routePath, startedAt, socket } = this.req;
    metrics.observeRequest(routePath || 'none', this.statusCode, (performance.now() - startedAt) / 1000);
    pipelines.finished(socket);
  }
  const turns = new RequestScheduler(LIMITS.requestsPerTurn);
  function finish(this: Response): void {
    pipelines.finished(this.req.socket);
  }
  const begin = (req: Request, res: Response, expectationMet: boolean) => {
    // While draining, the server closes each connection after its response.
    if (isDraining()) res.shouldKeepAlive = false;
    req.cors = cors.fieldsOf(req);
    if (cors.preflight(req, res)) {
      res.on('finish', finish);
      return;
    }
    const route = exact(req);
    req.contract = route?.contract ?? null;
    // Before anything else is done for it: refusing must cost an attacker more than us.
    if (route?.guard?.(req, res)) {
      res.on('finish', finish);
      return;
    }
    beginExchange(req);
    // It finishes once, so this is `once` without what that makes for each.
    res.on('finish', observe);
    const full = turns.waiting >= LIMITS.requestsWaiting ? unavailable() : null;
    const wrong = full ?? wrongRequest(req, expectationMet);
    if (wrong) edge.answer(wrong, req, res);
    else
      turns.take(() => {
        if (route && req.method === 'POST' && req.url === route.contract.path) serveExactly(route, req, res, edge);
        else app(req, res);
      });
  };
  const serve = (incoming: IncomingMessage, outgoing: unknown, expectationMet: boolean) =>
    pipelines.take(incoming.socket, () => begin(incoming as Request, outgoing as Response, expectationMet));
  const server = createServer(
    {
      IncomingMessage: BornRequest,
      ServerResponse: BornResponse as never,
      maxHeaderSize: LIMITS.headerBytes,
      headersTimeout: LIMITS.headersTimeoutMs,
      requestTimeout: LIMITS.requestTimeoutMs,
      connectionsCheckingInterval: LIMITS.connectionCheckMs,
      keepAliveTimeout: LIMITS.keepAliveTimeoutMs,
      // Node would answer its absence without a body; wrongRequest does it.
      requireHostHeader: false,
      noDelay: true,
    },
    (incoming, outgoing) => serve(incoming, outgoing, true),
  );
  const pipelines = new Pipelines(server, { inFlight: LIMITS.requestsPerConnection, waiting: LIMITS.requestsWaiting });
  server.maxConnections = LIMITS.connections;
  server.timeout = LIMITS.idleTimeoutMs;
  server.on('checkExpectation', (incoming, outgoing) => serve(incoming, outgoing, false));
  server.on('clientError', answerMalformed);
  return server;
}

/**
 * Node hands a request with any `Upgrade` to whoever listens for upgrades. Only WebSockets are meant: an offer of HTTP/2
 * (Java's client makes it with every request) may be ignored, and the request is answered as usual.
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

/** What is not even HTTP gets an answer too, as far as the connection still takes one. */
function answerMalformed(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  // Told once for each request; one that may take its time has a limit of its own.
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isLongRequest(socket)) return;
  const problem =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? new Problem('headers_too_large', `Header fields may have ${LIMITS.headerBytes} bytes.`)
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? new Problem('request_timeout', 'The request did not arrive in time.')
        : new Problem('invalid_request', 'This is no HTTP request.');
  respondRaw(socket, problem, uuidv7());
}
