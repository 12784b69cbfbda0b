import { randomBytes } from 'node:crypto';
import { type IncomingMessage, type ServerResponse, STATUS_CODES, validateHeaderValue } from 'node:http';
import type { Request, Response } from 'express';
import type { RouteContract } from './route.js';
import { API_HEADERS } from './security-headers.js';

/** Properties that `beginExchange` and the server set on every request. */
declare module 'node:http' {
  interface IncomingMessage {
    requestId: string;
    /** W3C trace context; "" = missing or malformed. */
    trace: string;
    /** When the request arrived, in ms of `performance.now`. */
    startedAt: number;
    /** Path pattern of the matched route, for metrics; "" = not matched yet. */
    routePath: string;
    /** Contract of the matched route; null = not matched. */
    contract: RouteContract | null;
    /**
     * CORS fields of the response (api/http/cors.ts): a flat list of names and values, empty for most requests.
     */
    cors: readonly string[];
    /** Whether a log line already contains the request id. If not, a refusal is logged. */
    logged: boolean;
    /** The body, if a wrapper of the handler has read it (api/regions). `readJson` returns it. */
    bodyRead?: { value: unknown };
  }
}

const SAFE_REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/;
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Returns the id that the client sent in `X-Request-Id`, or a new one. */
export function requestIdOf(req: IncomingMessage): string {
  const given = req.headers['x-request-id'];
  return typeof given === 'string' && SAFE_REQUEST_ID.test(given) ? given : newRequestId();
}

/** First part of generated ids, unique per process. A counter is the second part. */
const PROCESS = randomBytes(9).toString('base64url').replaceAll('_', '-');
let made = 0;
function newRequestId(): string {
  made += 1;
  return `${PROCESS}.${made.toString(36)}`;
}

/** Sets the id and trace context of a request, before Express sees it. */
export function beginExchange(req: Request): void {
  req.requestId = requestIdOf(req);
  req.logged = false;
  const trace = req.headers.traceparent;
  req.trace = typeof trace === 'string' && TRACEPARENT.test(trace) ? trace : '';
  req.routePath = '';
}

/**
 * A response before it is sent. `fields` is a flat list of names and values; `text` is null if the body is streamed.
 */
export type Outgoing = { status: number; fields: readonly string[]; text: string | null };
/** @returns the response to send instead; null = send the original */
export type Inspector = (req: IncomingMessage, response: Outgoing) => (Outgoing & { text: string }) | null;
let inspector: Inspector | null = null;

/** Passes each response to `inspect` before it is sent. Used by tests (api/http/contract-check.ts). */
export function inspectResponses(inspect: Inspector | null): void {
  inspector = inspect;
}

/**
 * Status line and constant fields of JSON responses by status. Each head is built and validated once.
 */
const heads = new Map<number, string>();
function headOf(status: number): string {
  let head = heads.get(status);
  if (head === undefined) {
    head = makeHead(status, 'no-store');
    heads.set(status, head);
  }
  return head;
}

function makeHead(status: number, cacheControl: string): string {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  const constant = [...API_HEADERS, 'Cache-Control', cacheControl];
  for (let i = 0; i < constant.length; i += 2) {
    validateHeaderValue(String(constant[i]), String(constant[i + 1]));
    head += `${constant[i]}: ${constant[i + 1]}\r\n`;
  }
  return head;
}

/** The internal step of Node's `writeHead` that writes a status line and a list of names and values. */
type HeadStoring = { _storeHeader(begin: string, fields: readonly string[]): void };

/**
 * Sends head and body in one write; no header may be set before. The constant fields are one text behind the status
 * line, because Node validates each character of each field that it receives (docs/decisions/0005-http-edge.md).
 * @param fields flat list of names and values, Content-Length among them
 */
export function sendText(res: ServerResponse, status: number, fields: readonly string[], text: string): void {
  const instead = inspector === null ? null : inspector(res.req, { status, fields, text });
  if (instead === null) sendChecked(res, headOf(status), status, fields, text);
  else sendChecked(res, headOf(instead.status), instead.status, instead.fields, instead.text);
}

/** Sends a JSON text that caches may keep, with `Cache-Control` instead of `no-store`. */
export function sendCacheable(
  res: ServerResponse,
  status: number,
  fields: readonly string[],
  json: string,
  cacheControl: string,
): void {
  const length = String(Buffer.byteLength(json));
  const all = ['Content-Type', 'application/json; charset=utf-8', 'Content-Length', length, ...fields];
  const instead = inspector === null ? null : inspector(res.req, { status, fields: all, text: json });
  if (instead === null) sendChecked(res, makeHead(status, cacheControl), status, all, json);
  else sendChecked(res, headOf(instead.status), instead.status, instead.fields, instead.text);
}

function sendChecked(res: ServerResponse, head: string, status: number, fields: readonly string[], text: string): void {
  res.statusCode = status;
  const { cors } = res.req as { cors?: readonly string[] };
  (res as unknown as HeadStoring)._storeHeader(head, cors?.length ? [...fields, ...cors] : fields);
  // Node sends a string in one write with the head. A buffer would be a second write, which costs as much again.
  res.end(text);
}

/**
 * Sends the head of a response that has no body or streams it.
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
 * Returns the value of `Retry-After`: whole seconds plus random jitter of up to half, so that clients do not retry
 * together.
 */
export function retryAfter(seconds: number): string {
  const whole = Math.max(1, Math.ceil(seconds));
  return String(whole + Math.floor(Math.random() * Math.max(2, Math.ceil(whole / 2) + 1)));
}
