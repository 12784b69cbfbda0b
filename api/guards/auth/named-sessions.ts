import {
  createHash,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';
import type { Request } from 'express';
import { LRUCache } from 'lru-cache';
import type { SigningKey } from '../../../shared/config/environment-values.js';
import { decodeBase64url } from '../../../shared/domain/base64url.js';
import type { OperatorSessionsTable, StoredSession } from '../../../shared/postgres/operator-sessions.js';
import type { Route } from '../../http/route.js';
import { cookiesOf } from './operator-cookies.js';

const PREFIX = 's.';
const TOKEN_BYTES = 32;

export type NamedSession = Pick<StoredSession, 'id' | 'operator' | 'role'> & { expiresAtMs: number };
export type NamedSessionsDeps = {
  table: OperatorSessionsTable;
  ticketKeys: readonly SigningKey[];
  nowMs: () => number;
  limits: { sessionsCached: number; sessionCachedMs: number; sessionSeenEveryMs: number };
};

/**
 * Sessions of operators who logged in with OpenID Connect: `s.<token>.<mac>` in the cookie of the page, and the SHA-256
 * of the token in Postgres. The mac spares Postgres a statement for invented tokens. What was found, or not found, is
 * used for `sessionCachedMs` without another statement, which is how long an ended session can still be used.
 */
export class NamedSessions {
  readonly #macKeys: readonly KeyObject[];
  readonly #found: LRUCache<string, { session: NamedSession | null; atMs: number; seenMs: number }>;
  readonly #ofRequests = new WeakMap<Request, NamedSession>();

  constructor(readonly deps: NamedSessionsDeps) {
    this.#macKeys = deps.ticketKeys.map(({ key }) =>
      createSecretKey(Buffer.from(hkdfSync('sha256', key, '', 'doorbuster named operator session', 32))),
    );
    this.#found = new LRUCache({ max: deps.limits.sessionsCached });
  }

  /** A new token for a cookie, and the digest of it for the table. */
  newToken(): { value: string; digest: Buffer } {
    const token = randomBytes(TOKEN_BYTES);
    const [key] = this.#macKeys;
    if (!key) throw new Error('at least one ticket key is needed');
    const value = `${PREFIX}${token.toString('base64url')}.${macOf(key, token).toString('base64url')}`;
    return { value, digest: digestOf(token) };
  }

  /** The session of a request, after `withSessions` has read it; null = none. */
  of(req: Request): NamedSession | null {
    return this.#ofRequests.get(req) ?? null;
  }

  /** Makes the processes refuse a session that was ended: this one at once, others within `sessionCachedMs`. */
  forget(id: string): void {
    for (const [digest, { session }] of this.#found.entries()) if (session?.id === id) this.#found.delete(digest);
  }

  /** Returns the routes; those of operators read the session of a request first. */
  withSessions(routes: readonly Route[]): Route[] {
    return routes.map((route) => {
      if (route.contract.tag !== 'admin') return route;
      const handle: Route['handle'] = async (req, res) => {
        await this.#read(req);
        return route.handle(req, res);
      };
      return { ...route, handle };
    });
  }

  async #read(req: Request): Promise<void> {
    if (req.headers.authorization !== undefined) return;
    for (const value of cookiesOf(req)) {
      const digest = this.#digestIn(value);
      const session = digest && (await this.#find(digest));
      if (!session) continue;
      this.#ofRequests.set(req, session);
      return;
    }
  }

  /** Returns the digest of the token in a cookie; null = another kind of cookie, or one that was made up. */
  #digestIn(value: string): Buffer | null {
    if (!value.startsWith(PREFIX)) return null;
    const [tokenText = '', macText = '', ...rest] = value.slice(PREFIX.length).split('.');
    const [token, mac] = [decodeBase64url(tokenText), decodeBase64url(macText)];
    if (rest.length > 0 || token?.length !== TOKEN_BYTES || !mac) return null;
    const isOurs = this.#macKeys.some((key) => {
      const expected = macOf(key, token);
      return mac.length === expected.length && timingSafeEqual(mac, expected);
    });
    return isOurs ? digestOf(token) : null;
  }

  async #find(digest: Buffer): Promise<NamedSession | null> {
    const { table, nowMs, limits } = this.deps;
    const name = digest.toString('base64');
    const cached = this.#found.get(name);
    const now = nowMs();
    if (cached && now - cached.atMs < limits.sessionCachedMs)
      return cached.session && cached.session.expiresAtMs > now ? cached.session : null;
    const stored = await table.find(digest);
    if (!stored) {
      this.#found.set(name, { session: null, atMs: now, seenMs: 0 });
      return null;
    }
    const { id, operator, role, expiresAt } = stored;
    const session = { id, operator, role, expiresAtMs: expiresAt.getTime() };
    const seenMs = cached?.seenMs ?? 0;
    const isDue = now - seenMs >= limits.sessionSeenEveryMs;
    this.#found.set(name, { session, atMs: now, seenMs: isDue ? now : seenMs });
    if (isDue) await table.markSeen(id);
    return session;
  }
}

const digestOf = (token: Buffer): Buffer => createHash('sha256').update(token).digest();
const macOf = (key: KeyObject, token: Buffer): Buffer =>
  createHmac('sha256', key).update(token).digest().subarray(0, 16);
