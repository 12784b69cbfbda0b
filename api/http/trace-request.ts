import type { Request, Response } from 'express';
import { type Tracing, unsampled } from '../../shared/observability/tracing.js';

/** Paths that are polled by machines. Their spans would hide those of shoppers. */
const POLLED = /^\/(livez|readyz|metrics)(\?|$)/;
/** Other methods are recorded as `_OTHER`, because clients may send any. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const SERVER_ERROR = 500;

/**
 * Starts the span of a request, which ends with its response or its connection. From then on `req.trace` is the context
 * of this span, so the journal, the events and the webhooks carry it. The span has the path pattern of the route and no
 * path, query or address: they may contain codes, tickets and users.
 */
export function traceRequest(tracing: Tracing, req: Request, res: Response): void {
  if (POLLED.test(req.url)) return;
  const method = METHODS.has(req.method) ? req.method : '_OTHER';
  const span = tracing.start(method, { kind: 'server', parent: req.trace, startMs: req.startedAt, attributes: {} });
  if (span === null) {
    req.trace = unsampled(req.trace);
    return;
  }
  req.trace = span.traceparent;
  const scheme = req.protocol;
  res.once('close', () => {
    const { statusCode, writableFinished } = res;
    const { routePath, requestId } = req;
    span.end({
      name: routePath === '' ? method : `${method} ${routePath}`,
      attributes: {
        'http.request.method': method,
        'url.scheme': scheme,
        'doorbuster.request_id': requestId,
        ...(routePath === '' ? {} : { 'http.route': routePath }),
        ...(writableFinished ? { 'http.response.status_code': statusCode } : {}),
      },
      ...errorOf(statusCode, writableFinished),
    });
  });
}

/** A refusal is not an error of the server. A connection that ended before its response is. */
function errorOf(statusCode: number, isFinished: boolean): { error?: string } {
  if (!isFinished) return { error: 'connection_closed' };
  return statusCode >= SERVER_ERROR ? { error: String(statusCode) } : {};
}
