import type { IncomingMessage } from 'node:http';
import type { Request, Response } from 'express';
import { Problem } from '../../shared/errors/catalogue.js';
import { type FastRejects, fastReject, sendFastReject } from './fast-reject.js';
import { requestIdOf } from './respond.js';
import { RESPONSE_HEADERS } from './route.js';
import { API_HEADERS } from './security-headers.js';

/** Calls of shoppers; operators' and services' are no business of another site's pages. */
const SHOPPERS = /^\/(?:flash-sale|coupons)\//;
/** As long as Chrome keeps a preflight at most. */
const MAX_AGE_SECONDS = 7_200;
const METHODS = 'GET, POST, DELETE';
/** Everything that a shopper's call may carry beside what browsers allow anyway. */
const REQUEST_HEADERS = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'If-None-Match',
  'X-Challenge-Solution',
  'X-Device-Fingerprint',
  'X-Request-Id',
  'X-Shopper',
  'X-Ticket',
  'traceparent',
].join(', ');
/** What a script of another origin may read beside the body. */
const EXPOSED = Object.keys(RESPONSE_HEADERS)
  .filter((name) => name !== 'Set-Cookie')
  .join(', ');

/**
 * Which pages of other origins may call: those of SHOP_ORIGINS, for shoppers' calls, without cookies. A browser asks first for nearly
 * every call (preflight); it is answered before anything else is done.
 */
export class Cors {
  readonly #refusal = fastReject(new Problem('origin_not_allowed', 'Pages of this origin may not make this call.'));
  readonly #fields: ReadonlyMap<string, readonly string[]>;

  /** @param origins as browsers send them: scheme, host and port, in lower case */
  constructor(
    readonly origins: readonly string[],
    /** Logs refused preflights, many in one line. */
    readonly terse: FastRejects | null = null,
  ) {
    this.#fields = new Map(
      origins.map((origin) => [
        origin,
        ['Access-Control-Allow-Origin', origin, 'Vary', 'Origin', 'Access-Control-Expose-Headers', EXPOSED],
      ]),
    );
  }

  /** Fields of every response to a call of a page of another origin; empty where the browser is not to hand it to the page. */
  fieldsOf(req: IncomingMessage): readonly string[] {
    const { origin } = req.headers;
    if (origin === undefined || !SHOPPERS.test(String(req.url))) return NONE;
    return this.#fields.get(origin) ?? NONE;
  }

  /** @returns whether the request was a preflight, which is answered then: 204, or 403 for an origin or call that is not allowed */
  preflight(req: Request, res: Response): boolean {
    const { origin } = req.headers;
    if (req.method !== 'OPTIONS' || origin === undefined) return false;
    if (req.headers['access-control-request-method'] === undefined) return false;
    if (!this.#isAllowed(req)) {
      if (this.terse) this.terse.answer(req, res, this.#refusal, null);
      else sendFastReject(req, res, this.#refusal);
      return true;
    }
    res.writeHead(204, [
      ...API_HEADERS,
      ...['Access-Control-Allow-Origin', origin, 'Vary', 'Origin', 'Access-Control-Max-Age', String(MAX_AGE_SECONDS)],
      ...['Access-Control-Allow-Methods', METHODS, 'Access-Control-Allow-Headers', REQUEST_HEADERS],
      ...['X-Request-Id', requestIdOf(req)],
    ]);
    res.end();
    return true;
  }

  /**
   * A browser opens a WebSocket to any host without asking first, and only says where its page comes from.
   * @returns why the socket is refused; null for our own pages, those of SHOP_ORIGINS, and clients that are no browsers
   */
  refusalOfSocket(req: IncomingMessage): Problem | null {
    const { origin, host } = req.headers;
    if (origin === undefined || this.#fields.has(origin)) return null;
    if (URL.canParse(origin) && new URL(origin).host === host) return null;
    return new Problem('origin_not_allowed', 'Pages of this origin may not open sockets here.');
  }

  #isAllowed(req: Request): boolean {
    return this.fieldsOf(req) !== NONE;
  }
}

const NONE: readonly string[] = [];
