import { createServer, IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { LIMITS } from '../../shared/config/limits.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { beginExchange } from './exchange.js';
import { isLongRequest } from './long-requests.js';
import { type ProblemEdge, problemDocument } from './problem.js';
import type { Route } from './route.js';

export type AppOptions = { trustProxy: number };

/** Puts the routes on an Express app: each path with its methods, 405 for the others, 404 for the rest, one error edge. */
export function createApp(routes: readonly Route[], edge: ProblemEdge, options: AppOptions): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', 'simple');
  app.set('trust proxy', options.trustProxy);
  app.set('case sensitive routing', true);

  const methodsOf = new Map<string, string[]>();
  for (const route of routes) {
    const { method, path } = route.contract;
    methodsOf.set(path, [...(methodsOf.get(path) ?? []), method.toUpperCase()]);
    app[method](path, (req: Request, res: Response) => {
      req.routePath = path;
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
export function createHttpServer(app: Express, metrics: Metrics, isDraining: () => boolean): Server {
  const BornRequest = function (this: IncomingMessage, socket: Socket) {
    IncomingMessage.call(this as never, socket);
  } as unknown as typeof IncomingMessage;
  const BornResponse = function (this: ServerResponse, req: IncomingMessage, options: unknown) {
    (ServerResponse as unknown as (...args: unknown[]) => void).call(this, req, options);
  } as unknown as typeof ServerResponse;
  (BornRequest as { prototype: unknown }).prototype = app.request;
  (BornResponse as { prototype: unknown }).prototype = app.response;

  const server = createServer(
    {
      IncomingMessage: BornRequest,
      ServerResponse: BornResponse as never,
      maxHeaderSize: LIMITS.headerBytes,
      headersTimeout: LIMITS.headersTimeoutMs,
      requestTimeout: LIMITS.requestTimeoutMs,
      keepAliveTimeout: LIMITS.keepAliveTimeoutMs,
      noDelay: true,
    },
    (incoming: IncomingMessage, outgoing: unknown) => {
      const req = incoming as Request;
      const res = outgoing as Response;
      beginExchange(req);
      // Whoever is answered while we stop is told to take another connection next time.
      if (isDraining()) res.shouldKeepAlive = false;
      res.once('finish', () => {
        const labels = { route: req.routePath || 'none', status: res.statusCode };
        metrics.httpSeconds.observe(labels, (performance.now() - req.startedAt) / 1000);
      });
      app(req, res);
    },
  );
  server.maxConnections = LIMITS.connections;
  server.on('clientError', answerMalformed);
  return server;
}

/** What is not even HTTP gets an answer too, as far as the connection still takes one. */
function answerMalformed(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  // Told once for each request; one that may take its time has a limit of its own.
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isLongRequest(socket)) return;
  const [status, phrase] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'Request Timeout']
        : [400, 'Bad Request'];
  const document = JSON.parse(problemDocument(new Problem('invalid_request', phrase), 'none')) as Record<
    string,
    unknown
  >;
  const body = JSON.stringify({ ...document, status, instance: undefined });
  socket.end(
    `HTTP/1.1 ${status} ${phrase}\r\nContent-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
