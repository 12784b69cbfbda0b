import { describe, expect, test } from '@jest/globals';
import { ConfigError, readConfig } from './config.js';

const ENGINES = { REDIS_URL: 'redis://127.0.0.1:1', DATABASE_URL: 'postgres://127.0.0.1:1/x' };
const OIDC = {
  OIDC_ISSUER: 'https://login.shop.example/realms/shop',
  OIDC_CLIENT_ID: 'doorbuster',
  OIDC_CLIENT_SECRET: 'secret-of-the-client',
  OIDC_REDIRECT_URL: 'https://ops.shop.example/admin/login/callback',
  OIDC_ROLES: 'shop-admins:admin, urn:group:support:support',
};

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    readConfig({ ...ENGINES, ...env });
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems;
  }
}

describe('the login of operators', () => {
  test('is off without an issuer', () => {
    expect(readConfig(ENGINES).oidc).toBeNull();
  });

  test('has the groups of the operators with their roles', () => {
    expect(readConfig({ ...ENGINES, ...OIDC }).oidc).toMatchObject({
      clientId: 'doorbuster',
      rolesClaim: 'groups',
      scope: 'openid email profile',
      roles: new Map([
        ['shop-admins', 'admin'],
        ['urn:group:support', 'support'],
      ]),
    });
  });

  test('needs all of its settings, and names those without effect', () => {
    const { OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET } = OIDC;
    expect(problemsOf({ OIDC_ISSUER })).toEqual(
      ['OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET'].map((name) => `${name} is missing: OIDC_ISSUER needs it`),
    );
    const three = readConfig({ ...ENGINES, OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET }).oidc;
    expect(three?.redirectUrl).toBeNull();
    expect(three?.roles.get('doorbuster-support')).toBe('support');
    expect(problemsOf({ OIDC_ROLES: 'a:admin' })).toEqual([
      'OIDC_ROLES has no effect without OIDC_ISSUER: set it or remove OIDC_ROLES',
    ]);
  });

  test('refuses unknown roles, other redirect addresses, and plain HTTP in production', () => {
    expect(problemsOf({ ...OIDC, OIDC_ROLES: 'shop:owner' }).join()).toMatch(/OIDC_ROLES = .*value:role/);
    const elsewhere = { ...OIDC, OIDC_REDIRECT_URL: 'https://ops.shop.example/callback' };
    expect(problemsOf(elsewhere).join()).toMatch(/must be the public address of \/admin\/login\/callback/);
    const short = problemsOf({ ...OIDC, OIDC_CLIENT_SECRET: 'short' }).join();
    expect(short).toMatch(/OIDC_CLIENT_SECRET: must have at least 16/);
    expect(short).not.toContain('"short"');
    const plain = { ...OIDC, OIDC_ISSUER: 'http://login.shop.example', NODE_ENV: 'production' };
    expect(problemsOf(plain)).toContain('OIDC_ISSUER = "http://login.shop.example": must be https:// in production');
  });
});
