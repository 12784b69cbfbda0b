import { createHash, createHmac, createSecretKey, hkdfSync, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { Request } from 'express';
import type { ApiKey, SigningKey } from '../../../shared/config/environment-values.js';
import { decodeBase64url } from '../../../shared/domain/base64url.js';
import type { Role } from '../../../shared/domain/role.js';
import { Problem } from '../../../shared/errors/catalogue.js';
import type { CachedKey, KeyCache } from './key-cache.js';
import type { NamedSessions } from './named-sessions.js';
import { cookiesOf } from './operator-cookies.js';

/**
 * Header of the operator's page. Forms and links of other sites cannot set it, and CORS forbids it to their scripts.
 */
export const PAGE_HEADER = 'x-operator-page';

type SessionKey = { name: string; digest: Buffer; key: KeyObject };
export type OperatorSession = { operator: string; role: Role; expiresAtMs: number };

/**
 * Sessions of operators in a browser: `<expires>.<mac>` in a cookie, and `<expires>.<mac>.<key id>` for a key that an
 * operator created. The key of the mac is derived from the digest of an admin secret and a ticket key. Every process
 * can derive it, revoking either key ends the session, and a stolen cookie alone does not allow offline guesses of the
 * secret.
 */
export class OperatorSessions {
  readonly #keys: readonly SessionKey[];

  constructor(
    admin: readonly ApiKey[],
    readonly ticketKeys: readonly SigningKey[],
    readonly lifeMs: number,
    readonly nowMs: () => number,
    /** Keys that operators created. */
    readonly stored: KeyCache | null = null,
    /** Sessions of operators who logged in with OpenID Connect; null = there are none. */
    readonly named: NamedSessions | null = null,
  ) {
    this.#keys = ticketKeys.flatMap(({ key }) =>
      admin.map(({ name, secret }) => {
        const digest = sha256(secret);
        return { name, digest, key: sessionKey(key, name, digest) };
      }),
    );
  }

  /** Opens a session for an admin secret and returns its cookie; null = the secret is wrong. */
  open(secret: string): (OperatorSession & { value: string }) | null {
    const given = sha256(secret);
    let found: SessionKey | null = null;
    // Compares all keys in constant time. The first ticket key signs.
    for (const known of this.#keys) if (timingSafeEqual(known.digest, given)) found ??= known;
    const lastMs = Math.floor(this.nowMs()) + this.lifeMs;
    if (!found) return this.#openStored(given, lastMs);
    return { operator: found.name, role: 'admin', expiresAtMs: lastMs, value: signed(found.key, lastMs) };
  }

  #openStored(digest: Buffer, lastMs: number): (OperatorSession & { value: string }) | null {
    const key = this.stored?.find(digest);
    const [ticketKey] = this.ticketKeys;
    if (!key || key.role === null || !ticketKey) return null;
    this.stored?.used(key);
    const expiresAtMs = Math.min(lastMs, key.expiresAtMs);
    const value = `${signed(sessionKey(ticketKey.key, key.name, digest), expiresAtMs)}.${key.id}`;
    return { operator: key.name, role: key.role, expiresAtMs, value };
  }

  /** Returns the session of a request; null = no valid session. */
  of(req: Request): OperatorSession | null {
    const named = this.named?.of(req);
    if (named) return named;
    for (const value of cookiesOf(req)) {
      const session = this.#verify(value);
      if (session) return session;
    }
    return null;
  }

  /**
   * Returns the session of a call; null = no valid session. A call that changes data must come from the operator's
   * page.
   * @throws Problem 403 if another site made the browser call
   */
  caller(req: Request): OperatorSession | null {
    const session = this.of(req);
    if (session && req.method !== 'GET' && req.method !== 'HEAD') requireOwnPage(req);
    return session;
  }

  #verify(value: string): OperatorSession | null {
    const [expires = '', given = '', keyId, ...rest] = value.split('.');
    const expiresAtMs = /^[0-9a-z]{1,10}$/.test(expires) ? Number.parseInt(expires, 36) : 0;
    if (rest.length > 0 || expiresAtMs <= this.nowMs()) return null;
    const shown = decodeBase64url(given);
    if (keyId !== undefined) return this.#verifyStored(this.stored?.byId(keyId) ?? null, expires, shown, expiresAtMs);
    let found: SessionKey | null = null;
    for (const known of this.#keys) if (isMacOf(known.key, expires, shown)) found ??= known;
    return found && { operator: found.name, role: 'admin', expiresAtMs };
  }

  #verifyStored(
    key: CachedKey | null,
    expires: string,
    shown: Buffer | null,
    expiresAtMs: number,
  ): OperatorSession | null {
    if (!key || key.role === null) return null;
    const keys = this.ticketKeys.map((ticketKey) => sessionKey(ticketKey.key, key.name, key.digest));
    if (!keys.some((one) => isMacOf(one, expires, shown))) return null;
    this.stored?.used(key);
    return { operator: key.name, role: key.role, expiresAtMs };
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

function isMacOf(key: KeyObject, text: string, shown: Buffer | null): boolean {
  const expected = mac(key, text);
  return shown?.length === expected.length && timingSafeEqual(shown, expected);
}

function signed(key: KeyObject, expiresAtMs: number): string {
  const expires = expiresAtMs.toString(36);
  return `${expires}.${mac(key, expires).toString('base64url')}`;
}

/** @param digest SHA-256 of the secret */
function sessionKey(ticketKey: KeyObject, name: string, digest: Buffer): KeyObject {
  const derived = hkdfSync('sha256', ticketKey, digest, `doorbuster operator session of ${name}`, 32);
  return createSecretKey(Buffer.from(derived));
}

const mac = (key: KeyObject, text: string): Buffer => createHmac('sha256', key).update(text).digest();
const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();
