import { createHash, createHmac, createSecretKey, hkdfSync, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Request } from 'express';
import type { ApiKey, SigningKey } from '../../../shared/config/environment-values.js';
import { decodeBase64url } from '../../../shared/domain/base64url.js';
import { Problem } from '../../../shared/errors/catalogue.js';

const COOKIE = 'doorbuster_operator';
/**
 * Header of the operator's page. Forms and links of other sites cannot set it, and CORS forbids it to their scripts.
 */
export const PAGE_HEADER = 'x-operator-page';
/** Maximum number of cookies of one name that are tried: without TLS, other hosts of the domain can set some too. */
const MAX_COOKIES = 32;

type SessionKey = { name: string; digest: Buffer; key: KeyObject };

/**
 * Sessions of operators in a browser: `<expires>.<mac>` in a cookie. The key of the mac is derived from an admin secret
 * and a ticket key. Every process can derive it, revoking either key ends the session, and a stolen cookie alone does
 * not allow offline guesses of the secret.
 */
export class OperatorSessions {
  readonly #keys: readonly SessionKey[];

  constructor(
    admin: readonly ApiKey[],
    ticketKeys: readonly SigningKey[],
    readonly lifeMs: number,
    readonly nowMs: () => number,
  ) {
    this.#keys = ticketKeys.flatMap(({ key }) =>
      admin.map(({ name, secret }) => ({ name, digest: sha256(secret), key: sessionKey(key, name, secret) })),
    );
  }

  /** Opens a session for an admin secret and returns its cookie; null = the secret is wrong. */
  open(secret: string): { operator: string; value: string; expiresAtMs: number } | null {
    const given = sha256(secret);
    let found: SessionKey | null = null;
    // Compares all keys in constant time. The first ticket key signs.
    for (const known of this.#keys) if (timingSafeEqual(known.digest, given)) found ??= known;
    if (!found) return null;
    const expiresAtMs = Math.floor(this.nowMs()) + this.lifeMs;
    const expires = expiresAtMs.toString(36);
    return { operator: found.name, value: `${expires}.${mac(found.key, expires).toString('base64url')}`, expiresAtMs };
  }

  /** Returns the session of a request; null = no valid session. */
  of(req: Request): { operator: string; expiresAtMs: number } | null {
    for (const value of cookiesOf(req)) {
      const session = this.#verify(value);
      if (session) return session;
    }
    return null;
  }

  /**
   * Returns the operator of a call; null = no valid session. A call that changes data must come from the operator's
   * page.
   * @throws Problem 403 if another site made the browser call
   */
  caller(req: Request): string | null {
    const session = this.of(req);
    if (session && req.method !== 'GET' && req.method !== 'HEAD') requireOwnPage(req);
    return session?.operator ?? null;
  }

  #verify(value: string): { operator: string; expiresAtMs: number } | null {
    const [expires = '', given = '', ...rest] = value.split('.');
    const expiresAtMs = /^[0-9a-z]{1,10}$/.test(expires) ? Number.parseInt(expires, 36) : 0;
    if (rest.length > 0 || expiresAtMs <= this.nowMs()) return null;
    const shown = decodeBase64url(given);
    let found: SessionKey | null = null;
    for (const known of this.#keys) {
      const expected = mac(known.key, expires);
      if (shown?.length === expected.length && timingSafeEqual(shown, expected)) found ??= known;
    }
    return found && { operator: found.name, expiresAtMs };
  }
}

/**
 * Requires that a call comes from the operator's page: `Sec-Fetch-Site`, and a header that only this page sets. A proxy
 * may change `Host`, so `Origin` is compared with it only if `Sec-Fetch-Site` is missing, as over plain HTTP.
 * @throws Problem 403
 */
export function requireOwnPage(req: Request): void {
  const { origin } = req.headers;
  const site = req.headers['sec-fetch-site'];
  const isOwn = site === undefined ? isSameHost(origin, req.headers.host) : site === 'same-origin';
  if (!isOwn || req.headers[PAGE_HEADER] === undefined)
    throw new Problem('forbidden', 'The call did not come from the operator’s page.');
}

function isSameHost(origin: string | undefined, host: string | undefined): boolean {
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === host;
}

/**
 * Returns the name of the cookie. Over TLS it begins with `__Host-`: browsers then accept it from this host alone, so
 * that a sibling domain cannot set one that hides it.
 */
function cookieName(req: Request): string {
  return req.secure ? `__Host-${COOKIE}` : COOKIE;
}

/** Returns the `Set-Cookie` field of a session. @param maxAgeSeconds 0 = the browser deletes the cookie */
export function sessionCookie(req: Request, value: string, maxAgeSeconds: number): string {
  const scope = req.secure ? 'Path=/; Secure' : 'Path=/admin';
  return `${cookieName(req)}=${value}; ${scope}; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict`;
}

function cookiesOf(req: Request): string[] {
  const name = cookieName(req);
  return (req.headers.cookie ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .slice(0, MAX_COOKIES)
    .map((pair) => pair.slice(name.length + 1));
}

function sessionKey(ticketKey: KeyObject, name: string, secret: string): KeyObject {
  const derived = hkdfSync('sha256', ticketKey, sha256(secret), `doorbuster operator session of ${name}`, 32);
  return createSecretKey(Buffer.from(derived));
}

const mac = (key: KeyObject, text: string): Buffer => createHmac('sha256', key).update(text).digest();
const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();
