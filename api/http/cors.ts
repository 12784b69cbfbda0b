import type { IncomingMessage } from 'node:http';
import type { Request, Response } from 'express';
import { Problem } from '../../shared/errors/catalogue.js';
import { type FastRejects, fastReject, sendFastReject } from './fast-reject.js';
import { requestIdOf } from './respond.js';
import { RESPONSE_HEADERS } from './route.js';
import { API_HEADERS } from './security-headers.js';

/** Paths of shoppers' calls. Pages of other origins never call operators' or services' routes. */
const SHOPPERS = /^\/(?:flash-sale|coupons)\//;
/** The maximum for which Chrome caches a preflight. */
const MAX_AGE_SECONDS = 7_200;
const METHODS = 'GET, POST, DELETE';
/** Request headers of shoppers' calls beyond those that browsers always allow. */
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
/** Response headers that a script of another origin may read. */
const EXPOSED = [...Object.keys(RESPONSE_HEADERS), 'Date', 'Age'].filter((name) => name !== 'Set-Cookie').join(', ');

/**
 * Cross-origin access for pages of SHOP_ORIGINS: shoppers' calls only, without cookies. A browser sends a preflight
 * before nearly every call; the server responds to it before any other work.
 */
export class Cors {
  readonly #refusal = fastReject(new Problem('origin_not_allowed', 'Pages of this origin may not make this call.'));
  readonly #fields: ReadonlyMap<string, readonly string[]>;

  /** @param origins as browsers send them: scheme, host and port, in lower case */
  constructor(
    readonly origins: readonly string[],
    /** Logs refused preflights, many in one line. */
    readonly rejects: FastRejects | null = null,
  ) {
    this.#fields = new Map(
      origins.map((origin) => [
        origin,
        ['Access-Control-Allow-Origin', origin, 'Vary', 'Origin', 'Access-Control-Expose-Headers', EXPOSED],
      ]),
    );
  }

  /** Returns the CORS fields for a response; empty = the browser hides the response from the page. */
  fieldsOf(req: IncomingMessage): readonly string[] {
    const { origin } = req.headers;
    if (origin === undefined || !SHOPPERS.test(String(req.url))) return NONE;
    return this.#fields.get(origin) ?? NONE;
  }

  /**
   * Responds to a preflight: 204, or 403 for an origin or a path that is not allowed.
   * @returns whether the request was a preflight
   */
  preflight(req: Request, res: Response): boolean {
    const { origin } = req.headers;
    if (req.method !== 'OPTIONS' || origin === undefined) return false;
    if (req.headers['access-control-request-method'] === undefined) return false;
    if (!this.#isAllowed(req)) {
      if (this.rejects) this.rejects.reject(req, res, this.#refusal, null);
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
   * Checks the origin of a WebSocket. A browser opens a socket to any host without a preflight; it only sends `Origin`.
   * @returns the refusal; null for own pages, for pages of SHOP_ORIGINS and for clients that are not browsers
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
