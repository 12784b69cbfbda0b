import { z } from 'zod';
import type { SigningKey } from './environment-values.js';

/** How a request proves which shopper sent it (docs/identity.md). */
export type IdentityConfig =
  /** The gateway in front of the API vouches for `user_id`. */
  | { mode: 'gateway' }
  /** A bearer JWT whose `sub` is the `user_id`. */
  | {
      mode: 'jwt';
      key: { kind: 'jwks'; url: URL } | { kind: 'secret'; secret: Uint8Array };
      /** Accepted values of `iss` and `aud`; empty = not checked. */
      issuers: readonly string[];
      audiences: readonly string[];
      /** Claims that are used as the user's attributes. */
      attributes: readonly string[];
    }
  /** A hand-over that the shop has signed. */
  | { mode: 'signed'; keys: readonly SigningKey[] };

type Mode = IdentityConfig['mode'];
const MODES = ['gateway', 'jwt', 'signed'] as const satisfies readonly Mode[];

const httpUrl = z
  .string()
  .refine(
    (value) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
    'must be a URL starting with https:// or http://',
  );

const names = z.string().transform((value, context): string[] => {
  const parts = value.split(',').map((part) => part.trim());
  if (parts.includes('')) context.addIssue({ code: 'custom', message: 'must be comma-separated, no part empty' });
  return parts;
});

/** The environment variables for the identity of shoppers. */
export const IDENTITY_ENVIRONMENT = {
  SHOPPER_IDENTITY: z
    .enum(MODES, `must be one of ${MODES.join(', ')}`)
    .optional()
    .describe(
      'how a shopper is identified: `gateway` (the gateway in front vouches for `user_id`), `jwt` (a bearer JWT), `signed` (a hand-over signed by the shop). Must be chosen in production; elsewhere the default is `jwt` or `signed` when its key is set, otherwise `gateway`',
    ),
  SHOPPER_JWT_JWKS: httpUrl
    .optional()
    .describe('`jwt`: URL of the JWK set; shoppers then send a bearer JWT whose `sub` is their `user_id`'),
  SHOPPER_JWT_SECRET: z
    .string()
    .min(32, 'must have at least 32 characters')
    .optional()
    .describe('`jwt`: the shared secret (HS256, HS384, HS512), instead of a JWK set'),
  SHOPPER_JWT_ISSUER: names
    .optional()
    .describe('`jwt`: accepted values of `iss`, comma-separated; unset = not checked'),
  SHOPPER_JWT_AUDIENCE: names
    .optional()
    .describe(
      '`jwt`: accepted values of `aud`, comma-separated; unset = not checked, so a JWT made for another application is accepted',
    ),
  SHOPPER_JWT_ATTRIBUTES: names
    .optional()
    .describe(
      '`jwt`: claims that are the attributes of the user, comma-separated; attributes in the body are then ignored. Unset = none',
    ),
};
export type IdentityEnvironment = z.infer<z.ZodObject<typeof IDENTITY_ENVIRONMENT>> & {
  SHOPPER_SIGNING_KEYS?: SigningKey[] | undefined;
};

type Given = Record<string, string | undefined>;
const JWT_KEYS = ['SHOPPER_JWT_JWKS', 'SHOPPER_JWT_SECRET'] as const;
const JWT_NAMES = [...JWT_KEYS, 'SHOPPER_JWT_ISSUER', 'SHOPPER_JWT_AUDIENCE', 'SHOPPER_JWT_ATTRIBUTES'] as const;
const SIGNED_NAMES = ['SHOPPER_SIGNING_KEYS'] as const;

/** Problems of identity settings that do not fit together. */
export function identityProblems(given: Given): string[] {
  const problems: string[] = [];
  const chosen = given.SHOPPER_IDENTITY;
  if (chosen === undefined && given.NODE_ENV === 'production') {
    problems.push(`SHOPPER_IDENTITY is missing: in production choose one of ${MODES.join(', ')}`);
  }
  if (given.SHOPPER_JWT_JWKS && given.SHOPPER_JWT_SECRET) {
    problems.push('SHOPPER_JWT_JWKS and SHOPPER_JWT_SECRET: set one of them, not both');
  }
  // Anyone on the path of http could choose the keys.
  if (
    given.NODE_ENV === 'production' &&
    /^http:\/\/(?!(?:localhost|127\.0\.0\.1|\[::1\])[:/])/i.test(given.SHOPPER_JWT_JWKS ?? '')
  ) {
    problems.push(
      `SHOPPER_JWT_JWKS = "${given.SHOPPER_JWT_JWKS}": must be https:// in production, unless it is on this machine`,
    );
  }
  const mode = chosen ?? inferredMode(given);
  if (mode === 'jwt' && JWT_KEYS.every((name) => given[name] === undefined)) {
    problems.push(`${JWT_KEYS.join(' or ')} is missing: SHOPPER_IDENTITY=jwt needs one of them`);
  }
  if (mode === 'signed' && given.SHOPPER_SIGNING_KEYS === undefined) {
    problems.push('SHOPPER_SIGNING_KEYS is missing: SHOPPER_IDENTITY=signed needs it');
  }
  const unused = [...(mode === 'jwt' ? [] : JWT_NAMES), ...(mode === 'signed' ? [] : SIGNED_NAMES)];
  for (const name of unused.filter((one) => given[one] !== undefined)) {
    problems.push(`${name} has no effect with SHOPPER_IDENTITY=${mode}: remove it or choose another SHOPPER_IDENTITY`);
  }
  return problems;
}

/** Without SHOPPER_IDENTITY, any setting of a mode selects that mode; `jwt` comes first. */
function inferredMode(given: Given): Mode {
  if (JWT_NAMES.some((name) => given[name] !== undefined)) return 'jwt';
  return given.SHOPPER_SIGNING_KEYS === undefined ? 'gateway' : 'signed';
}

/** @param e an environment for which `identityProblems` found no problem */
export function identityOf(e: IdentityEnvironment): IdentityConfig {
  const mode =
    e.SHOPPER_IDENTITY ??
    (e.SHOPPER_JWT_JWKS || e.SHOPPER_JWT_SECRET ? 'jwt' : e.SHOPPER_SIGNING_KEYS ? 'signed' : 'gateway');
  if (mode === 'gateway') return { mode };
  if (mode === 'signed') return { mode, keys: e.SHOPPER_SIGNING_KEYS ?? [] };
  return {
    mode,
    key: e.SHOPPER_JWT_JWKS
      ? { kind: 'jwks', url: new URL(e.SHOPPER_JWT_JWKS) }
      : { kind: 'secret', secret: new TextEncoder().encode(e.SHOPPER_JWT_SECRET) },
    issuers: e.SHOPPER_JWT_ISSUER ?? [],
    audiences: e.SHOPPER_JWT_AUDIENCE ?? [],
    attributes: e.SHOPPER_JWT_ATTRIBUTES ?? [],
  };
}

const MEANINGS: { readonly [Name in Mode]: string } = {
  gateway:
    'user_id is trusted as it is sent: the gateway in front of the API must authenticate shoppers. Without one, anyone can act as any user who has not checked out yet',
  jwt: 'shoppers need a bearer JWT whose sub is their user_id',
  signed: 'shoppers need a hand-over signed by the shop in X-Shopper',
};

/** Notes on the mode for operators, logged at the start. `warnings`: claims that are not checked. */
export function identityNotes(identity: IdentityConfig): { meaning: string; warnings: string[] } {
  const warnings: string[] = [];
  if (identity.mode === 'jwt' && identity.audiences.length === 0) {
    warnings.push(
      'SHOPPER_JWT_AUDIENCE is not set: a JWT that the same issuer made for another application is accepted',
    );
  }
  if (identity.mode === 'jwt' && identity.issuers.length === 0 && identity.key.kind === 'jwks') {
    warnings.push('SHOPPER_JWT_ISSUER is not set: the issuer of a JWT is not checked');
  }
  return { meaning: MEANINGS[identity.mode], warnings };
}
