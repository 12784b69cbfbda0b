import type { Request } from 'express';
import { z } from 'zod';
import { ROLES } from '../../shared/domain/role.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import { sessionCookie } from '../guards/auth/operator-cookies.js';
import { type OperatorSession, type OperatorSessions, requireOwnPage } from '../guards/auth/operator-sessions.js';
import { networkOf } from '../guards/caller/address.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import { rateLimited } from '../guards/limits/quotas.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';

const loginBody = z.strictObject({
  key: z
    .string()
    .min(1, 'must not be empty')
    .max(1_024)
    .describe('a key of ADMIN_API_KEYS, or one of kind `admin` from POST /admin/keys'),
});
const sessionData = z
  .object({
    operator: z.string().describe('the name of the key or the operator'),
    role: z.enum(ROLES).describe('what the operator may do (docs/team.md); keys of ADMIN_API_KEYS are `admin`'),
    max_buckets: z.int().describe('how many `buckets` a campaign may have; 1 = campaigns cannot be divided'),
    expires_at: z.iso.datetime(),
  })
  .meta({ id: 'OperatorSession' });

export type SessionRouteDeps = {
  sessions: OperatorSessions;
  /** How many buckets a campaign may have. */
  maxBuckets: number;
  /** Counts wrong keys by network. */
  logins: LocalQuota;
  onLimited: (policy: string) => void;
  /** Ends the session of a request in Postgres, if it is one of OpenID Connect; null = that is not configured. */
  endNamed: ((req: Request, operator: string) => Promise<void>) | null;
  log: Log;
};

/**
 * /admin/session: login, current session and logout of the operator's page. Other clients send an admin key as bearer.
 */
export function sessionRoutes(deps: SessionRouteDeps): Route[] {
  const { sessions, logins, onLimited, endNamed, log } = deps;
  const view = ({ operator, role, expiresAtMs }: OperatorSession): z.input<typeof sessionData> => ({
    operator,
    role,
    max_buckets: deps.maxBuckets,
    expires_at: new Date(expiresAtMs).toISOString(),
  });
  const common = { path: '/admin/session', tag: 'admin', caller: 'anyone' } as const;
  return [
    defineRoute(
      {
        ...common,
        operationId: 'getLoginMethods',
        method: 'get',
        path: '/admin/login/methods',
        summary: 'How operators can log in',
        answers: {
          200: {
            description: 'The ways to log in.',
            data: z.object({
              key: z.literal(true).describe('POST /admin/session'),
              oidc: z.boolean().describe('GET /admin/login'),
            }),
          },
        },
        errors: [],
      },
      (call) => call.reply(200, { key: true, oidc: endNamed !== null }),
    ),
    defineRoute(
      {
        ...common,
        operationId: 'logIn',
        method: 'post',
        summary: 'Log in with an admin key',
        description:
          'For browsers: the response sets a cookie that replaces the key under /admin, until it expires or the key is ' +
          'revoked. Calls that change data with it must come from the same origin and contain `X-Operator-Page`.',
        body: loginBody,
        answers: { 200: { description: 'Logged in.', data: sessionData, headers: ['Set-Cookie'] } },
        errors: [
          'unauthorized',
          'forbidden',
          'invalid_request',
          'invalid_json',
          'unsupported_media_type',
          'body_too_large',
          'rate_limited',
        ],
      },
      async (call) => {
        const { req } = call;
        requireOwnPage(req);
        const network = networkOf(req);
        const { key } = validate(loginBody, await readJson(req));
        // A valid key is accepted whatever else its network sends.
        const opened = sessions.open(key);
        if (!opened) {
          const waitMs = logins.take(network);
          if (waitMs === 0) throw call.refusal(unauthorized('The key is unknown.'));
          onLimited('login');
          throw rateLimited('login', logins.limit, logins.windowMs / 1000, waitMs);
        }
        log.info({ request_id: req.requestId, operator: opened.operator }, 'operator.login');
        const cookie = sessionCookie(req, opened.value, Math.floor(sessions.lifeMs / 1000));
        call.reply(200, view(opened), ['Set-Cookie', cookie]);
      },
    ),
    defineRoute(
      {
        ...common,
        operationId: 'getSession',
        method: 'get',
        summary: 'The session of the browser',
        answers: { 200: { description: 'The session is valid.', data: sessionData } },
        errors: ['unauthorized'],
      },
      (call) => {
        const { req } = call;
        const session = sessions.of(req);
        if (!session) throw call.refusal(unauthorized('The browser has no session, or it has expired.'));
        call.reply(200, view(session));
      },
    ),
    defineRoute(
      {
        ...common,
        operationId: 'logOut',
        method: 'delete',
        summary: 'Log out',
        description: 'Idempotent. The browser deletes its cookie; a session of OpenID Connect ends.',
        answers: {
          200: { description: 'Logged out.', data: z.object({ logged_out: z.literal(true) }), headers: ['Set-Cookie'] },
        },
        errors: ['forbidden'],
      },
      async (call) => {
        const { req } = call;
        requireOwnPage(req);
        const session = sessions.of(req);
        if (session) await endNamed?.(req, session.operator);
        call.reply(200, { logged_out: true }, ['Set-Cookie', sessionCookie(req, '', 0)]);
      },
    ),
  ];
}

const unauthorized = (detail: string) =>
  new Problem('unauthorized', detail, { headers: { 'WWW-Authenticate': 'Bearer realm="doorbuster"' } });
