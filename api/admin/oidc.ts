import * as oidc from 'openid-client';
import type { OidcConfig } from '../../shared/config/oidc.js';
import { ROLES, type Role } from '../../shared/domain/role.js';
import type { Log } from '../../shared/observability/log.js';

/** What the browser must bring back from the issuer: kept in a signed cookie of that browser. */
export type LoginAttempt = { state: string; nonce: string; verifier: string; redirectUrl: string };
/** An operator by the proof of the issuer. `role`: null = none of the groups has a role. */
export type ProvenOperator = { issuer: string; subject: string; names: readonly string[]; role: Role | null };

/** The issuer cannot be reached, or its responses cannot be used. */
export class IssuerUnavailable extends Error {
  override readonly name = 'IssuerUnavailable';
}
/** The issuer refused the login, or what the browser brought does not belong to this login. */
export class LoginRefused extends Error {
  override readonly name = 'LoginRefused';
}

export type IssuerDeps = {
  config: OidcConfig;
  production: boolean;
  nowMs: () => number;
  log: Log;
  limits: { oidcCallMs: number; oidcRetryMs: number };
};

/** The OpenID Connect issuer of operators: authorization code with PKCE, state and nonce. */
export class Issuer {
  #discovered: Promise<oidc.Configuration> | null = null;
  #failedAtMs = Number.NEGATIVE_INFINITY;

  constructor(readonly deps: IssuerDeps) {}

  /**
   * Begins a login.
   * @param callback address of the return by the request, if none is configured
   * @returns the address of the issuer, and what to keep until the return
   * @throws IssuerUnavailable
   */
  async begin(callback: string): Promise<{ url: URL; attempt: LoginAttempt }> {
    const { config } = this.deps;
    const client = await this.#client();
    const attempt = {
      state: oidc.randomState(),
      nonce: oidc.randomNonce(),
      verifier: oidc.randomPKCECodeVerifier(),
      redirectUrl: config.redirectUrl?.href ?? callback,
    };
    const url = oidc.buildAuthorizationUrl(client, {
      redirect_uri: attempt.redirectUrl,
      scope: config.scope,
      state: attempt.state,
      nonce: attempt.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(attempt.verifier),
      code_challenge_method: 'S256',
    });
    return { url, attempt };
  }

  /**
   * Completes a login with the query that the issuer sent through the browser.
   * @throws LoginRefused or IssuerUnavailable
   */
  async complete(
    query: URLSearchParams,
    { state, nonce, verifier, redirectUrl }: LoginAttempt,
  ): Promise<ProvenOperator> {
    const { config } = this.deps;
    const client = await this.#client();
    // By the address of the beginning, because a proxy may have changed host and scheme of this request.
    const url = new URL(redirectUrl);
    url.search = query.toString();
    try {
      const tokens = await oidc.authorizationCodeGrant(client, url, {
        pkceCodeVerifier: verifier,
        expectedState: state,
        expectedNonce: nonce,
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (!claims) throw new LoginRefused('the issuer returned no ID token');
      const lacksRoles = claims[config.rolesClaim] === undefined && client.serverMetadata().userinfo_endpoint;
      const more = lacksRoles ? await oidc.fetchUserInfo(client, tokens.access_token, claims.sub) : {};
      return operatorOf({ ...more, ...claims }, config);
    } catch (error) {
      throw failureOf(error);
    }
  }

  #client(): Promise<oidc.Configuration> {
    const { nowMs, limits, log } = this.deps;
    if (this.#discovered) return this.#discovered;
    if (nowMs() - this.#failedAtMs < limits.oidcRetryMs)
      return Promise.reject(new IssuerUnavailable('the issuer could not be reached a moment ago'));
    const discovered = this.#discover();
    this.#discovered = discovered;
    discovered.catch((error: unknown) => {
      this.#discovered = null;
      this.#failedAtMs = nowMs();
      log.warn({ reason: String(error) }, 'the issuer of operators could not be reached');
    });
    return discovered;
  }

  async #discover(): Promise<oidc.Configuration> {
    const { config, production, limits } = this.deps;
    const { issuer, clientId, clientSecret } = config;
    try {
      return await oidc.discovery(issuer, clientId, clientSecret, undefined, {
        timeout: limits.oidcCallMs / 1000,
        execute: production ? [] : [oidc.allowInsecureRequests],
      });
    } catch (error) {
      throw new IssuerUnavailable(messageOf(error));
    }
  }
}

/** Refusals of the issuer and wrong states, nonces, signatures are refusals; everything else is an outage. */
function failureOf(error: unknown): Error {
  if (error instanceof LoginRefused) return error;
  const isRefusal =
    error instanceof oidc.AuthorizationResponseError ||
    error instanceof oidc.ResponseBodyError ||
    (error instanceof oidc.ClientError && !/timeout|fetch|HTTP/i.test(String(error.code)));
  return isRefusal ? new LoginRefused(messageOf(error)) : new IssuerUnavailable(messageOf(error));
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function operatorOf(claims: Record<string, unknown>, { issuer, rolesClaim, roles }: OidcConfig): ProvenOperator {
  const given = claims[rolesClaim];
  const groups = Array.isArray(given) ? given : [given];
  const own = new Set(groups.flatMap((group) => (typeof group === 'string' ? (roles.get(group) ?? []) : [])));
  return {
    issuer: String(claims.iss ?? issuer.href),
    subject: String(claims.sub),
    names: namesOf(claims),
    role: ROLES.findLast((role) => own.has(role)) ?? null,
  };
}

const MAX_NAME = 100;

/** Returns names for an operator, the preferred one first. An address that the issuer has not verified is no name. */
function namesOf({ email, email_verified, preferred_username, sub }: Record<string, unknown>): string[] {
  const isVerified = email_verified !== false;
  const [first] = [isVerified ? email : null, preferred_username, sub].filter((one) => typeof one === 'string' && one);
  // Names of rules have a colon; names of the service itself have no `@`.
  const clean = String(first)
    .replace(/[^A-Za-z0-9._@+-]/g, '_')
    .slice(0, MAX_NAME);
  const own = clean.includes('@') ? clean : `${clean}@oidc`;
  return [own, ...Array.from({ length: 20 }, (_, i) => `${own}#${i + 2}`)];
}
