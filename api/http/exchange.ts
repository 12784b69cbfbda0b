import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Request, Response } from 'express';
import { API_HEADERS } from './security-headers.js';

/** What every request carries from the first moment on. */
declare module 'node:http' {
  interface IncomingMessage {
    requestId: string;
    /** W3C trace context, "" = none or malformed. */
    trace: string;
    startedAt: number;
    /** Path pattern of the route that took it, for metrics; "" until then. */
    routePath: string;
    /** Whether a line in the log has its id; a refusal without one gets one. */
    logged: boolean;
  }
}

const SAFE_REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/;
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The id a request came with, or a new one. */
export function requestIdOf(req: IncomingMessage): string {
  const given = req.headers['x-request-id'];
  return typeof given === 'string' && SAFE_REQUEST_ID.test(given) ? given : newRequestId();
}

/** Ids made here: unique among processes by the first part, within this one by the second. */
const PROCESS = randomBytes(9).toString('base64url').replaceAll('_', '-');
let made = 0;
function newRequestId(): string {
  made += 1;
  return `${PROCESS}.${made.toString(36)}`;
}

/** First thing for every request, before Express: ids and time. */
export function beginExchange(req: Request): void {
  req.requestId = requestIdOf(req);
  req.logged = false;
  const trace = req.headers.traceparent;
  req.trace = typeof trace === 'string' && TRACEPARENT.test(trace) ? trace : '';
  req.startedAt = performance.now();
  req.routePath = '';
}

/** What every JSON answer begins with. */
const JSON_HEADERS = [...API_HEADERS, 'Cache-Control', 'no-store'];

/** Sends a JSON text. One write with all headers: nothing else may have been set before. */
export function sendJson(
  req: Request,
  res: Response,
  status: number,
  json: string,
  headers: readonly string[] = [],
  contentType = 'application/json; charset=utf-8',
): void {
  const own = [
    'Content-Type',
    contentType,
    'Content-Length',
    String(Buffer.byteLength(json)),
    'X-Request-Id',
    req.requestId,
  ];
  res.writeHead(status, JSON_HEADERS.concat(own, headers));
  // As a string, Node sends it in one piece with the head; a buffer would be a second piece, which costs as much again.
  res.end(json);
}

/** Sends a success: `{"data": …}`. @param headers flat list of names and values */
export function sendData(
  req: Request,
  res: Response,
  status: number,
  data: unknown,
  headers: readonly string[] = [],
): void {
  sendJson(req, res, status, JSON.stringify({ data }), headers);
}

/** Whole seconds with up to half as much again at random, so that those who were sent away do not come back together. */
export function retryAfter(seconds: number): string {
  const whole = Math.max(1, Math.ceil(seconds));
  return String(whole + Math.floor(Math.random() * Math.max(2, Math.ceil(whole / 2) + 1)));
}
