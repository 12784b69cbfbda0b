import { describe, expect, test } from '@jest/globals';
import { ConfigError, readConfig } from './config.js';
import type { SigningKey } from './environment-values.js';

const KEY = Buffer.alloc(32, 1).toString('base64');
const GIVEN = {
  REDIS_URL: 'redis://127.0.0.1:6379',
  DATABASE_URL: 'postgres://127.0.0.1/db',
  ADMIN_API_KEYS: 'olga:a-secret-of-olga-1, otto:a-secret-of-otto-1',
  SERVICE_API_KEYS: 'payments:a-secret-of-payments',
  ATTESTATION_KEYS: `a1:${KEY},a0:${KEY}`,
  TICKET_KEYS: `t1:${KEY}`,
};

function problemsOf(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

/** Signing keys as bytes, because `toEqual` finds any two key objects equal. */
const withBytes = (signing: readonly SigningKey[]) => signing.map(({ id, key }) => ({ id, key: key.export() }));

/** 32 bytes that look random. */
const random = (seed: number) =>
  Buffer.from(Array.from({ length: 32 }, (_, i) => (i * 37 + seed * 101) % 256)).toString('base64');
const IN_PRODUCTION = {
  ...GIVEN,
  NODE_ENV: 'production',
  SHOPPER_IDENTITY: 'gateway',
  ADMIN_API_KEYS: 'olga:b7XkQ0pLs93mZr4TyUwE',
  SERVICE_API_KEYS: 'pay:Qm2nB8vC6xZ1aSd5FgHj',
  ATTESTATION_KEYS: `a1:${random(1)}`,
  TICKET_KEYS: `t1:${random(2)}`,
};

test('reads the variables that are set, and has defaults for the others', () => {
  const config = readConfig(GIVEN);
  expect({
    ...config,
    attestationKeys: withBytes(config.attestationKeys),
    ticketKeys: withBytes(config.ticketKeys),
  }).toEqual({
    production: false,
    port: 8102,
    host: '127.0.0.1',
    redis: {
      kind: 'server',
      server: { host: '127.0.0.1', port: 6379 },
      username: null,
      password: null,
      db: 0,
      tls: null,
    },
    shards: 1,
    waitReplicas: 0,
    databaseUrl: GIVEN.DATABASE_URL,
    databaseReadUrl: null,
    adminKeys: [
      { name: 'olga', secret: 'a-secret-of-olga-1' },
      { name: 'otto', secret: 'a-secret-of-otto-1' },
    ],
    serviceKeys: [{ name: 'payments', secret: 'a-secret-of-payments' }],
    attestationKeys: [
      { id: 'a1', key: Buffer.alloc(32, 1) },
      { id: 'a0', key: Buffer.alloc(32, 1) },
    ],
    ticketKeys: [{ id: 't1', key: Buffer.alloc(32, 1) }],
    payLinkKeys: [],
    apiProcesses: 1,
    apiRole: 'all',
    apiWriteUrl: null,
    madeSecrets: [],
    trustProxy: 0,
    shopOrigins: [],
    shopNetworks: [],
    frameAncestors: [],
    imageOrigins: [],
    pageLanguages: null,
    unknownCodesPerMinute: 300,
    opsPort: null,
    idempotencyTtlMs: 86_400_000,
    journalLimitEntries: 2_000_000,
    tokensPerMinutePerAddress: 120_000,
    freeTokensPerMinute: 60_000,
    pollsPer10sPerCaller: 300,
    validatePerMinutePerUser: 10,
    redeemPerMinutePerUser: 5,
    redeemPerMinutePerAddress: 20,
    challengeProvider: null,
    checkoutPerMinutePerAddress: 1_200,
    wrongKeysPerMinute: 1_000,
    wrongLoginsPerMinute: 10,
    socketsPerMinute: 20_000,
    socketFramesPer10s: 20_000,
    eventSource: '/doorbuster',
    webhookAllowPrivate: false,
    workerPort: null,
    degradeAtPercent: 50,
    development: false,
    showsKeys: false,
    kafka: null,
    oidc: null,
    push: null,
    payments: { stripeSecrets: [], webhookSecrets: [], midtransKey: null },
    attemptsKeepDays: 30,
    retention: { personalDataDays: 0, auditDays: 0, webhookAttemptsDays: 0, paymentEventsDays: 90 },
    logFormat: 'json',
    logLevel: 'info',
    platforms: { appAttest: null, playIntegrity: null },
    identity: { mode: 'gateway' },
    regions: null,
    tracing: null,
  });
});

test('treats an empty value as missing', () => {
  expect(readConfig({ ...GIVEN, PORT: '', SHOPPER_JWT_SECRET: '' })).toMatchObject({
    port: 8102,
    identity: { mode: 'gateway' },
  });
  expect(problemsOf({ ...GIVEN, REDIS_URL: '' })).toEqual(['REDIS_URL is missing']);
});

test('reports every mistake at once, with name, value and what is expected', () => {
  const wrong = {
    REDIS_URL: 'http://127.0.0.1',
    PORT: '99999',
    HOST: '0.0.0.0',
    IDEMPOTENCY_TTL_SECONDS: '599',
    TRUST_PROXY: 'yes',
    LOG_LEVEL: 'loud',
    ADMIN_API_KEYS: 'olga',
    SERVICE_API_KEYS: 'payments:short',
    ATTESTATION_KEYS: 'a1:AAAA',
    TICKET_KEYS: `t1:${KEY},t1:${KEY}`,
  };
  const problems = problemsOf(wrong);
  expect([...problems].sort()).toEqual([
    'ADMIN_API_KEYS: must be name:secret, comma-separated',
    'ATTESTATION_KEYS: key a1 must have at least 32 bytes',
    'DATABASE_URL is missing',
    'IDEMPOTENCY_TTL_SECONDS = "599": must be from 600 to 2592000',
    expect.stringMatching(/^LOG_LEVEL = "loud": /),
    'PORT = "99999": must be from 0 to 65535',
    expect.stringMatching(/^REDIS_URL = "http:\/\/127\.0\.0\.1": must be a URL starting with redis:\/\/, /),
    'SERVICE_API_KEYS: secret of payments must have at least 16 characters',
    'TICKET_KEYS: must not name a key id twice',
    'TRUST_PROXY = "yes": must be a whole number',
  ]);
  expect(new ConfigError(problems).message.split('\n').length).toBe(11);
});

test('never repeats a secret, however wrong it is', () => {
  const secret = 'hunter2hunter2';
  const wrong = {
    ...GIVEN,
    ADMIN_API_KEYS: `olga:${secret}`,
    TICKET_KEYS: secret,
    SHOPPER_JWT_SECRET: secret,
    DATABASE_URL: `mysql://x:${secret}@h/db`,
    REDIS_URL: `redis+cluster://x:${secret}@h1,h2?sentinel_password=${secret}`,
  };
  const problems = problemsOf(wrong);
  expect(problems.length).toBe(5);
  expect(problems.join()).not.toContain(secret);
});

test('waits for one replica with Sentinel and for none otherwise, unless the number is set', () => {
  const sentinel = { ...GIVEN, REDIS_URL: 'redis+sentinel://h1,h2,h3/doorbuster' };
  expect(readConfig(GIVEN).waitReplicas).toBe(0);
  expect(readConfig({ ...GIVEN, REDIS_WAIT_REPLICAS: '2' }).waitReplicas).toBe(2);
  expect(readConfig(sentinel).waitReplicas).toBe(1);
  expect(readConfig({ ...sentinel, REDIS_WAIT_REPLICAS: '0' }).waitReplicas).toBe(0);
  expect(problemsOf({ ...GIVEN, REDIS_WAIT_REPLICAS: '6' })).toEqual([
    'REDIS_WAIT_REPLICAS = "6": must be from 0 to 5',
  ]);
});

test('generates missing secrets for a single process outside production, and lists them', () => {
  const { REDIS_URL, DATABASE_URL } = GIVEN;
  const [config, other] = [readConfig({ REDIS_URL, DATABASE_URL }), readConfig({ REDIS_URL, DATABASE_URL })];
  expect(config.madeSecrets).toEqual(['ADMIN_API_KEYS', 'SERVICE_API_KEYS', 'ATTESTATION_KEYS', 'TICKET_KEYS']);
  const [made] = withBytes(config.ticketKeys);
  expect(made?.key.length).toBe(32);
  expect(made).not.toEqual(withBytes(other.ticketKeys)[0]);
  expect(config.adminKeys[0]?.secret).not.toBe(other.adminKeys[0]?.secret);
});

test('does not start without its secrets in production, or with several processes that could not share them', () => {
  const { REDIS_URL, DATABASE_URL } = GIVEN;
  const names = ['ADMIN_API_KEYS', 'SERVICE_API_KEYS', 'ATTESTATION_KEYS', 'TICKET_KEYS'];
  expect(problemsOf({ REDIS_URL, DATABASE_URL, NODE_ENV: 'production' })).toEqual([
    ...names.map((name) => `${name} is missing: it is required in production`),
    'SHOPPER_IDENTITY is missing: in production choose one of gateway, jwt, signed',
  ]);
  expect(problemsOf({ REDIS_URL, DATABASE_URL, API_PROCESSES: '2' })).toEqual(
    names.map((name) => `${name} is missing: it is required with more than one API process`),
  );
  expect(readConfig({ ...IN_PRODUCTION, API_PROCESSES: '4' })).toMatchObject({
    production: true,
    apiProcesses: 4,
  });
});

describe('SHOPPER_IDENTITY', () => {
  const SHOPPER_JWT_JWKS = 'https://login.example/jwks.json';
  const SHOPPER_JWT_SECRET = 'b7XkQ0pLs93mZr4TyUwEb7XkQ0pLs93m';
  const SHOPPER_SIGNING_KEYS = `s1:${random(3)}`;
  const unchecked = { issuers: [], audiences: [], attributes: [] };
  const identityOf = (env: NodeJS.ProcessEnv) => {
    const { identity } = readConfig({ ...GIVEN, ...env });
    return identity.mode === 'signed' ? { ...identity, keys: withBytes(identity.keys) } : identity;
  };

  test('is gateway by default, and jwt or signed when a key of that mode is set', () => {
    const jwks = { mode: 'jwt', key: { kind: 'jwks', url: new URL(SHOPPER_JWT_JWKS) }, ...unchecked };
    const secret = new TextEncoder().encode(SHOPPER_JWT_SECRET);
    const signed = { mode: 'signed', keys: [{ id: 's1', key: Buffer.from(random(3), 'base64') }] };
    expect(identityOf({})).toEqual({ mode: 'gateway' });
    expect(identityOf({ SHOPPER_JWT_JWKS })).toEqual(jwks);
    expect(identityOf({ SHOPPER_JWT_JWKS, SHOPPER_IDENTITY: 'jwt' })).toEqual(jwks);
    expect(identityOf({ SHOPPER_JWT_SECRET })).toEqual({ mode: 'jwt', key: { kind: 'secret', secret }, ...unchecked });
    expect(identityOf({ SHOPPER_SIGNING_KEYS })).toEqual(signed);
    expect(identityOf({ SHOPPER_SIGNING_KEYS, SHOPPER_IDENTITY: 'signed' })).toEqual(signed);
  });

  test('reads issuers, audiences and attributes as lists', () => {
    const lists = {
      SHOPPER_JWT_ISSUER: 'https://a.example, https://b.example',
      SHOPPER_JWT_AUDIENCE: 'shop',
      SHOPPER_JWT_ATTRIBUTES: 'country,https://shop.example/tier',
    };
    expect(identityOf({ SHOPPER_JWT_SECRET, ...lists })).toMatchObject({
      issuers: ['https://a.example', 'https://b.example'],
      audiences: ['shop'],
      attributes: ['country', 'https://shop.example/tier'],
    });
    expect(problemsOf({ ...GIVEN, SHOPPER_JWT_SECRET, SHOPPER_JWT_AUDIENCE: 'shop,' })).toEqual([
      'SHOPPER_JWT_AUDIENCE = "shop,": must be comma-separated, no part empty',
    ]);
  });

  test('must be chosen in production', () => {
    const { SHOPPER_IDENTITY: _, ...production } = IN_PRODUCTION;
    const missing = 'SHOPPER_IDENTITY is missing: in production choose one of gateway, jwt, signed';
    expect(problemsOf(production)).toEqual([missing]);
    expect(problemsOf({ ...production, SHOPPER_JWT_SECRET })).toEqual([missing]);
    expect(problemsOf({ ...production, SHOPPER_IDENTITY: 'gateway' })).toEqual([]);
    expect(problemsOf({ ...production, SHOPPER_IDENTITY: 'jwt', SHOPPER_JWT_JWKS })).toEqual([]);
    expect(problemsOf({ ...production, SHOPPER_IDENTITY: 'signed', SHOPPER_SIGNING_KEYS })).toEqual([]);
    expect(problemsOf({ ...production, SHOPPER_IDENTITY: 'none' })).toContain(
      'SHOPPER_IDENTITY = "none": must be one of gateway, jwt, signed',
    );
  });

  test('refuses a mode without its key and settings of another mode', () => {
    expect(problemsOf({ ...GIVEN, SHOPPER_IDENTITY: 'jwt' })).toEqual([
      'SHOPPER_JWT_JWKS or SHOPPER_JWT_SECRET is missing: SHOPPER_IDENTITY=jwt needs one of them',
    ]);
    expect(problemsOf({ ...GIVEN, SHOPPER_JWT_AUDIENCE: 'shop' })).toEqual([
      'SHOPPER_JWT_JWKS or SHOPPER_JWT_SECRET is missing: SHOPPER_IDENTITY=jwt needs one of them',
    ]);
    expect(problemsOf({ ...GIVEN, SHOPPER_IDENTITY: 'signed' })).toEqual([
      'SHOPPER_SIGNING_KEYS is missing: SHOPPER_IDENTITY=signed needs it',
    ]);
    const unused = (name: string, mode: string) =>
      `${name} has no effect with SHOPPER_IDENTITY=${mode}: remove it or choose another SHOPPER_IDENTITY`;
    expect(problemsOf({ ...GIVEN, SHOPPER_IDENTITY: 'gateway', SHOPPER_JWT_SECRET, SHOPPER_SIGNING_KEYS })).toEqual([
      unused('SHOPPER_JWT_SECRET', 'gateway'),
      unused('SHOPPER_SIGNING_KEYS', 'gateway'),
    ]);
    expect(problemsOf({ ...GIVEN, SHOPPER_JWT_SECRET, SHOPPER_SIGNING_KEYS })).toEqual([
      unused('SHOPPER_SIGNING_KEYS', 'jwt'),
    ]);
    expect(problemsOf({ ...GIVEN, SHOPPER_JWT_JWKS, SHOPPER_JWT_SECRET })).toEqual([
      'SHOPPER_JWT_JWKS and SHOPPER_JWT_SECRET: set one of them, not both',
    ]);
    expect(problemsOf({ ...GIVEN, SHOPPER_SIGNING_KEYS: 's1:AAAA' })).toEqual([
      'SHOPPER_SIGNING_KEYS: key s1 must have at least 32 bytes',
    ]);
  });
});

test('reports mistakes of every kind at once', () => {
  const { REDIS_URL, DATABASE_URL } = GIVEN;
  const problems = problemsOf({
    REDIS_URL,
    DATABASE_URL,
    NODE_ENV: 'production',
    PORT: 'x',
    SHOPPER_JWT_JWKS: 'https://a.example',
    SHOPPER_JWT_SECRET: 's'.repeat(32),
  });
  expect(problems).toContain('PORT = "x": must be a whole number');
  expect(problems).toContain('TICKET_KEYS is missing: it is required in production');
  expect(problems).toContain('SHOPPER_JWT_JWKS and SHOPPER_JWT_SECRET: set one of them, not both');
});

test('rejects keys that are not random and keys that are used twice in production', () => {
  const good = IN_PRODUCTION;
  expect(readConfig(good).production).toBe(true);
  const zeros = Buffer.alloc(32).toString('base64');
  expect(problemsOf({ ...good, TICKET_KEYS: `t1:${zeros}`, ADMIN_API_KEYS: 'olga:aaaaaaaaaaaaaaaaaaaa' })).toEqual([
    'TICKET_KEYS: key t1 is not random; make it with `openssl rand -base64 32`',
    'ADMIN_API_KEYS: secret of olga is not random; make it with `openssl rand -base64 32`',
  ]);
  for (const weak of ['passwordpassword1', 'change-me-change-me'])
    expect(problemsOf({ ...good, ADMIN_API_KEYS: `olga:${weak}` })).toHaveLength(1);
  const jwks = { SHOPPER_IDENTITY: 'jwt', SHOPPER_JWT_JWKS: 'http://login.example/jwks' };
  expect(problemsOf({ ...good, ...jwks })).toEqual([
    'SHOPPER_JWT_JWKS = "http://login.example/jwks": must be https:// in production, unless it is on this machine',
  ]);
  expect(problemsOf({ ...good, ...jwks, SHOPPER_JWT_JWKS: 'http://127.0.0.1:8080/jwks' })).toEqual([]);
  expect(problemsOf({ ...good, TICKET_KEYS: `t2:${random(1)}`, SERVICE_API_KEYS: 'pay:b7XkQ0pLs93mZr4TyUwE' })).toEqual(
    [
      'TICKET_KEYS: key t2 is the same as key a1 of ATTESTATION_KEYS',
      'SERVICE_API_KEYS: secret of pay is the same as secret of olga of ADMIN_API_KEYS',
    ],
  );
  expect(problemsOf({ ...good, NODE_ENV: 'development', TICKET_KEYS: `t1:${zeros}` })).toEqual([]);
});

test('accepts origins in the form that browsers send, and nothing else', () => {
  const origins = 'https://shop.example, http://localhost:3000,capacitor://localhost';
  expect(readConfig({ ...GIVEN, SHOP_ORIGINS: origins }).shopOrigins).toEqual([
    'https://shop.example',
    'http://localhost:3000',
    'capacitor://localhost',
  ]);
  for (const wrong of [
    '*',
    'null',
    'shop.example',
    'https://shop.example/',
    'https://Shop.example',
    'https://shop.example:443',
    'https://*.example',
  ])
    expect(problemsOf({ ...GIVEN, SHOP_ORIGINS: wrong })).toEqual([expect.stringContaining('must be origins like')]);
});

test('a listener for operators has a port of its own', () => {
  expect(readConfig({ ...GIVEN, OPS_PORT: '9102' }).opsPort).toBe(9_102);
  expect(problemsOf({ ...GIVEN, OPS_PORT: '8102' })).toEqual(['OPS_PORT = "8102": must be another port than PORT']);
});

test('names the rule for a signing secret of Stripe, and not the secret', () => {
  const [problem, ...others] = problemsOf({ ...GIVEN, STRIPE_WEBHOOK_SECRETS: 'whsec_short' });
  expect([problem, others]).toEqual([expect.stringContaining('must be whsec_ and at least 16 characters'), []]);
  expect(problem).not.toContain('short');
  expect(problemsOf({ ...GIVEN, STRIPE_WEBHOOK_SECRETS: 'whsec_0123456789abcdef' })).toEqual([]);
});
