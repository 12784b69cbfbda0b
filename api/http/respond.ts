import { randomBytes } from 'node:crypto';
import { type IncomingMessage, type ServerResponse, STATUS_CODES, validateHeaderValue } from 'node:http';
import type { Request, Response } from 'express';
import type { RouteContract } from './route.js';
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
    /** Contract of the route that took it; null until then, and where no route does. */
    contract: RouteContract | null;
    /**
     * Fields for a browser whose page is of another origin (api/http/cors.ts); a flat list of names and values, mostly
     * empty.
     */
    cors: readonly string[];
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

/**
 * A response before it is sent. `fields` is a flat list of names and values; `text` is null where the body is streamed.
 */
export type Outgoing = { status: number; fields: readonly string[]; text: string | null };
/** @returns what is sent instead; null = the response as it is */
export type Inspector = (req: IncomingMessage, response: Outgoing) => (Outgoing & { text: string }) | null;
let inspector: Inspector | null = null;

/** Shows each response to `inspect` before it is sent. Tests do it (api/http/contract-check.ts). */
export function inspectResponses(inspect: Inspector | null): void {
  inspector = inspect;
}

/**
 * What every JSON answer begins with: the same for all with one status and type, so it is made, and looked at by Node,
 * once.
 */
const heads = new Map<number, string>();
function headOf(status: number): string {
  let head = heads.get(status);
  if (head === undefined) {
    head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
    const constant = [...API_HEADERS, 'Cache-Control', 'no-store'];
    for (let i = 0; i < constant.length; i += 2) {
      validateHeaderValue(String(constant[i]), String(constant[i + 1]));
      head += `${constant[i]}: ${constant[i + 1]}\r\n`;
    }
    heads.set(status, head);
  }
  return head;
}

/** Of Node's own `writeHead`, what makes the fields of a status line and a list of names and values. */
type HeadStoring = { _storeHeader(begin: string, fields: readonly string[]): void };

/**
 * Sends head and body in one write: nothing else may have been set before. What is the same for all is put in as one
 * text behind the status line, since Node looks at each character of each field that it is given
 * (docs/decisions/0005-http-edge.md).
 * @param fields flat list of names and values, Content-Length among them
 */
export function sendText(res: ServerResponse, status: number, fields: readonly string[], text: string): void {
  const instead = inspector === null ? null : inspector(res.req, { status, fields, text });
  if (instead === null) sendChecked(res, status, fields, text);
  else sendChecked(res, instead.status, instead.fields, instead.text);
}

function sendChecked(res: ServerResponse, status: number, fields: readonly string[], text: string): void {
  res.statusCode = status;
  const { cors } = res.req as { cors?: readonly string[] };
  (res as unknown as HeadStoring)._storeHeader(headOf(status), cors?.length ? [...fields, ...cors] : fields);
  // As a string, Node sends it in one piece with the head; a buffer would be a second piece, which costs as much again.
  res.end(text);
}

/**
 * Sends the head of a response whose body is streamed, or that has none.
 * @param fields flat list of names and values
 */
export function sendHead(res: ServerResponse, status: number, fields: readonly string[]): void {
  inspector?.(res.req, { status, fields, text: null });
  res.writeHead(status, [...fields]);
}

/** Sends a JSON text. */
export function sendJson(
  req: Request,
  res: Response,
  status: number,
  json: string,
  headers: readonly string[] = [],
  contentType = 'application/json; charset=utf-8',
): void {
  const length = String(Buffer.byteLength(json));
  const fields = ['Content-Type', contentType, 'Content-Length', length, 'X-Request-Id', req.requestId, ...headers];
  sendText(res, status, fields, json);
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

/**
 * Whole seconds with up to half as much again at random, so that those who were sent away do not come back together.
 */
export function retryAfter(seconds: number): string {
  const whole = Math.max(1, Math.ceil(seconds));
  return String(whole + Math.floor(Math.random() * Math.max(2, Math.ceil(whole / 2) + 1)));
}
