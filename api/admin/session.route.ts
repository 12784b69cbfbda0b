import { z } from 'zod';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { type OperatorSessions, requireOwnPage, sessionCookie } from '../guards/auth/operator-sessions.js';
import { networkOf } from '../guards/caller/address.js';
import type { LocalQuota } from '../guards/limits/local-quota.js';
import { rateLimited } from '../guards/limits/quotas.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';

const loginBody = z.strictObject({
  key: z.string().min(1, 'must not be empty').max(1_024).describe('a key of ADMIN_API_KEYS'),
});
const sessionData = z.object({
  operator: z.string().describe('the name of the key'),
  expires_at: z.iso.datetime(),
});

export type SessionRouteDeps = {
  sessions: OperatorSessions;
  apiKeys: ApiKeys;
  /** Counts wrong keys by network. */
  logins: LocalQuota;
  onLimited: (policy: string) => void;
  log: Log;
};

/**
 * /admin/session: login, current session and logout of the operator's page. Other clients send an admin key as bearer.
 */
export function sessionRoutes({ sessions, logins, onLimited, log }: SessionRouteDeps): Route[] {
  const common = { path: '/admin/session', tag: 'admin', caller: 'anyone' } as const;
  return [
    defineRoute(
      {
        ...common,
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
        const { operator, expiresAtMs } = opened;
        const cookie = sessionCookie(req, opened.value, Math.floor(sessions.lifeMs / 1000));
        call.reply(200, view(operator, expiresAtMs), ['Set-Cookie', cookie]);
      },
    ),
    defineRoute(
      {
        ...common,
        method: 'get',
        summary: 'The session of the browser',
        answers: { 200: { description: 'The session is valid.', data: sessionData } },
        errors: ['unauthorized'],
      },
      (call) => {
        const { req } = call;
        const session = sessions.of(req);
        if (!session) throw call.refusal(unauthorized('The browser has no session, or it has expired.'));
        call.reply(200, view(session.operator, session.expiresAtMs));
      },
    ),
    defineRoute(
      {
        ...common,
        method: 'delete',
        summary: 'Log out',
        description: 'Idempotent. The browser deletes its cookie.',
        answers: {
          200: { description: 'Logged out.', data: z.object({ logged_out: z.literal(true) }), headers: ['Set-Cookie'] },
        },
        errors: ['forbidden'],
      },
      (call) => {
        const { req } = call;
        requireOwnPage(req);
        call.reply(200, { logged_out: true }, ['Set-Cookie', sessionCookie(req, '', 0)]);
      },
    ),
  ];
}

function view(operator: string, expiresAtMs: number): z.input<typeof sessionData> {
  return { operator, expires_at: new Date(expiresAtMs).toISOString() };
}

const unauthorized = (detail: string) =>
  new Problem('unauthorized', detail, { headers: { 'WWW-Authenticate': 'Bearer realm="doorbuster"' } });
