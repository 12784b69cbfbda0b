import type { Request } from 'express';
import { z } from 'zod';
import { ROLES } from '../../shared/domain/role.js';
import type { Log } from '../../shared/observability/log.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { cookie, cookiesOf, sessionCookie } from '../guards/auth/operator-cookies.js';
import { networkOf } from '../guards/caller/address.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import { rateLimited } from '../guards/limits/quotas.js';
import { type Call, defineRoute } from '../http/define-route.js';
import type { Route, RouteContract } from '../http/route.js';
import { validate } from '../http/validate.js';
import type { LoginCookies, LoginDesk } from './login.js';
import { type Issuer, IssuerUnavailable, type LoginAttempt, LoginRefused } from './oidc.js';

const COOKIE = 'doorbuster_login';
const id = z.object({ id: z.uuid() });
const ERRORS = ['unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'] as const;

export type LoginRouteDeps = {
  issuer: Issuer;
  desk: LoginDesk;
  cookies: LoginCookies;
  apiKeys: ApiKeys;
  /** Counts logins by network. */
  logins: LocalQuota;
  /** Counts returns from the issuer by login, because each is a call to the issuer. */
  returns: LocalQuota;
  onLimited: (policy: string) => void;
  limits: { loginMs: number; operatorSessionMs: number };
  log: Log;
};

const login = {
  method: 'get',
  tag: 'admin',
  caller: 'anyone',
  answers: {
    303: { description: 'The browser is redirected.', headers: ['Location'], optionalHeaders: ['Set-Cookie'] },
  },
  errors: ['rate_limited'],
} as const satisfies Partial<RouteContract>;

/** /admin/login and /admin/sessions: operators log in with OpenID Connect, and admins end their sessions. */
export function loginRoutes(deps: LoginRouteDeps): Route[] {
  return [
    defineRoute(
      {
        ...login,
        operationId: 'beginLogin',
        path: '/admin/login',
        summary: 'Log in with OpenID Connect',
        description: 'For browsers: redirects to the issuer of OIDC_ISSUER.',
      },
      async (call) => {
        const { req } = call;
        // A picture or a frame of another site begins no login, and uses up none of the network's.
        if (!isNavigation(req)) return redirect(call, '/admin', []);
        const waitMs = deps.logins.take(networkOf(req));
        if (waitMs > 0) {
          deps.onLimited('login');
          throw rateLimited('login', deps.logins.limit, deps.logins.windowMs / 1000, waitMs);
        }
        try {
          const { url, attempt } = await deps.issuer.begin(
            `${req.protocol}://${req.headers.host}/admin/login/callback`,
          );
          const seconds = Math.floor(deps.limits.loginMs / 1000);
          redirect(call, url.href, [cookie(req, COOKIE, deps.cookies.seal(attempt), seconds, 'Lax')]);
        } catch (error) {
          if (!(error instanceof IssuerUnavailable)) throw error;
          redirect(call, '/admin?login=unavailable', []);
        }
      },
    ),
    defineRoute(
      {
        ...login,
        operationId: 'completeLogin',
        path: '/admin/login/callback',
        anyQuery: true,
        summary: 'Complete a login with OpenID Connect',
        description: 'The issuer redirects the browser here. The response sets the cookie of a session.',
      },
      (call) => complete(call, deps),
    ),
    ...sessionsRoutes(deps),
  ];
}

/** Opens a session if the issuer vouches for an operator with a role. The page shows why if it does not. */
async function complete(call: Call, { issuer, desk, cookies, returns, limits, log }: LoginRouteDeps): Promise<void> {
  const { req } = call;
  const cleared = cookie(req, COOKIE, '', 0, 'Lax');
  const attempt = firstOf(cookiesOf(req, COOKIE), (value) => cookies.unseal(value));
  const failed = (why: string) => redirect(call, `/admin?login=${why}`, [cleared]);
  if (!attempt || returns.take(attempt.state) > 0) return failed('expired');
  try {
    const query = new URLSearchParams(req.url.split('?')[1] ?? '');
    const proven = await issuer.complete(query, attempt);
    const { role } = proven;
    if (role === null) {
      log.info({ request_id: req.requestId, subject: proven.subject }, 'operator without a role');
      return failed('no-role');
    }
    const { value, operator } = await desk.open({ ...proven, role }, req.requestId);
    log.info({ request_id: req.requestId, operator, role }, 'operator.login');
    const seconds = Math.floor(limits.operatorSessionMs / 1000);
    redirect(call, '/admin', [cleared, sessionCookie(req, value, seconds)]);
  } catch (error) {
    if (!(error instanceof LoginRefused || error instanceof IssuerUnavailable)) throw error;
    log.info({ request_id: req.requestId, reason: error.message }, 'operator.login refused');
    failed(error instanceof LoginRefused ? 'refused' : 'unavailable');
  }
}

/** Whether a person goes to the page, not a picture or a script; also true of a client that does not say. */
function isNavigation({ headers }: Request): boolean {
  return (headers['sec-fetch-dest'] ?? 'document') === 'document';
}

function firstOf(values: readonly string[], read: (value: string) => LoginAttempt | null): LoginAttempt | null {
  for (const value of values) {
    const found = read(value);
    if (found) return found;
  }
  return null;
}

function redirect(call: Call, location: string, cookies: readonly string[]): void {
  const fields = ['Location', location, 'Cache-Control', 'no-store', 'X-Request-Id', call.req.requestId];
  for (const one of cookies) fields.push('Set-Cookie', one);
  call.begin(303 as never, [...fields, 'Referrer-Policy', 'no-referrer', 'Content-Length', '0']);
  call.res.end();
}

const sessionData = z
  .object({
    id: z.uuid(),
    operator: z.string(),
    role: z.enum(ROLES),
    created_at: z.iso.datetime(),
    last_seen_at: z.iso.datetime().describe('accurate to about a minute'),
    expires_at: z.iso.datetime(),
  })
  .meta({ id: 'NamedSession' });

function sessionsRoutes({ desk, apiKeys, log }: LoginRouteDeps): Route[] {
  const admin = { tag: 'admin', caller: 'admin' } as const;
  const nameOf = (req: Request): string => apiKeys.require(req, 'admin');
  return [
    defineRoute(
      {
        ...admin,
        operationId: 'listSessions',
        method: 'get',
        path: '/admin/sessions',
        summary: 'List sessions of operators who logged in with OpenID Connect',
        answers: { 200: { description: 'The sessions in force, latest first.', data: z.array(sessionData) } },
        errors: ERRORS,
      },
      async (call) => {
        nameOf(call.req);
        const sessions = await desk.list();
        call.reply(
          200,
          sessions.map(({ id, operator, role, createdAt, lastSeenAt, expiresAt }) => ({
            ...{ id, operator, role },
            created_at: createdAt.toISOString(),
            last_seen_at: lastSeenAt.toISOString(),
            expires_at: expiresAt.toISOString(),
          })),
        );
      },
    ),
    defineRoute(
      {
        ...admin,
        operationId: 'endSession',
        method: 'delete',
        path: '/admin/sessions/:id',
        summary: 'End a session',
        description: 'Idempotent. Every process refuses it within about a second.',
        params: id,
        answers: { 200: { description: 'The session has ended.', data: z.object({ id: z.uuid() }) } },
        errors: [...ERRORS, 'session_not_found'],
      },
      async (call) => {
        const { req } = call;
        const operator = { name: nameOf(req), requestId: req.requestId };
        const session = validate(id, req.params).id;
        if (!(await desk.end(session, 'session.end', operator)))
          throw call.refusal('session_not_found', 'No session has this id.');
        log.info({ request_id: req.requestId, operator: operator.name, session }, 'session.end');
        call.reply(200, { id: session });
      },
    ),
  ];
}
