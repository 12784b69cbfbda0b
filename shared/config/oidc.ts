import { z } from 'zod';
import { ROLES, type Role } from '../domain/role.js';

/** How operators log in with OpenID Connect (docs/team.md). */
export type OidcConfig = {
  issuer: URL;
  clientId: string;
  clientSecret: string;
  /** The address of GET /admin/login/callback, as browsers reach it; null = that of each request. */
  redirectUrl: URL | null;
  scope: string;
  rolesClaim: string;
  /** Roles by the value of the claim. */
  roles: ReadonlyMap<string, Role>;
};

const webUrl = z
  .string()
  .refine(
    (value) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
    'must be a URL starting with https:// or http://',
  );
const roles = z.string().transform((value, context): [string, Role][] =>
  value.split(',').map((entry) => {
    const [, claim = '', role = ''] = /^\s*(.+):([a-z]+)\s*$/.exec(entry) ?? [];
    const known = ROLES.find((one) => one === role);
    if (!known)
      context.addIssue({ code: 'custom', message: `must be value:role, comma-separated, with ${ROLES.join(', ')}` });
    return [claim, known ?? 'viewer'];
  }),
);

/** The environment variables for the login of operators. */
export const OIDC_ENVIRONMENT = {
  OIDC_ISSUER: webUrl.optional().describe('operators log in at this OpenID Connect issuer; unset = with keys only'),
  OIDC_CLIENT_ID: z.string().optional().describe('id of this service at the issuer'),
  OIDC_CLIENT_SECRET: z
    .string()
    .min(16, 'must have at least 16 characters')
    .optional()
    .describe('secret of this service at the issuer'),
  OIDC_REDIRECT_URL: webUrl
    .refine((value) => URL.canParse(value) && new URL(value).pathname === '/admin/login/callback', {
      message: 'must be the public address of /admin/login/callback',
    })
    .optional()
    .describe(
      'public address of `/admin/login/callback`, as it is registered at the issuer; unset = by the host of the request',
    ),
  OIDC_SCOPE: z
    .string()
    .regex(/^openid( [\x21-\x7e]+)*$/, 'must be space-separated and begin with openid')
    .default('openid email profile')
    .describe('scopes that are requested; some issuers need one for groups'),
  OIDC_ROLES_CLAIM: z
    .string()
    .default('groups')
    .describe('claim with the groups of an operator: a text or a list of texts'),
  OIDC_ROLES: roles
    .optional()
    .describe(
      'role of each group, comma-separated `group:role`; of several, the highest counts. An operator without any cannot log in. ' +
        'Unset: `doorbuster-admin:admin` and so on for each role',
    ),
};

export const OIDC_SECRETS = ['OIDC_CLIENT_SECRET'] as const;
const NEEDED = ['OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET'] as const;
const OF_ISSUER = [...NEEDED, 'OIDC_REDIRECT_URL', 'OIDC_ROLES'] as const;

/** Problems of settings for the login of operators that do not fit together. */
export function oidcProblems(given: Record<string, string | undefined>): string[] {
  if (given.OIDC_ISSUER === undefined) {
    return OF_ISSUER.filter((name) => given[name] !== undefined).map(
      (name) => `${name} has no effect without OIDC_ISSUER: set it or remove ${name}`,
    );
  }
  const problems = NEEDED.filter((name) => given[name] === undefined).map(
    (name) => `${name} is missing: OIDC_ISSUER needs it`,
  );
  if (given.NODE_ENV !== 'production') return problems;
  const plain = (['OIDC_ISSUER', 'OIDC_REDIRECT_URL'] as const).filter((name) => given[name]?.startsWith('http:'));
  return [...problems, ...plain.map((name) => `${name} = "${given[name]}": must be https:// in production`)];
}

/** @param e an environment for which `oidcProblems` found no problem @returns null = operators log in with keys only */
export function oidcOf(e: z.infer<z.ZodObject<typeof OIDC_ENVIRONMENT>>): OidcConfig | null {
  const { OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, OIDC_REDIRECT_URL, OIDC_ROLES } = e;
  if (!OIDC_ISSUER || !OIDC_CLIENT_ID || !OIDC_CLIENT_SECRET) return null;
  return {
    issuer: new URL(OIDC_ISSUER),
    clientId: OIDC_CLIENT_ID,
    clientSecret: OIDC_CLIENT_SECRET,
    redirectUrl: OIDC_REDIRECT_URL === undefined ? null : new URL(OIDC_REDIRECT_URL),
    scope: e.OIDC_SCOPE,
    rolesClaim: e.OIDC_ROLES_CLAIM,
    roles: new Map(OIDC_ROLES ?? ROLES.map((role) => [`doorbuster-${role}`, role])),
  };
}
