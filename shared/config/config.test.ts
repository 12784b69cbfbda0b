import { expect, test } from '@jest/globals';
import { ConfigError, readConfig } from './config.js';

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

test('reads what is given and has a default for the rest', () => {
  expect(readConfig(GIVEN)).toEqual({
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
    waitReplicas: 0,
    databaseUrl: GIVEN.DATABASE_URL,
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
    apiProcesses: 1,
    madeSecrets: [],
    trustProxy: 0,
    idempotencyTtlMs: 86_400_000,
    journalLimitEntries: 2_000_000,
    tokensPerMinutePerAddress: 120_000,
    freeTokensPerMinute: 60_000,
    pollsPer10sPerCaller: 300,
    validatePerMinutePerUser: 10,
    redeemPerMinutePerUser: 5,
    redeemPerMinutePerAddress: 20,
    unknownCodesPerMinute: 300,
    wrongKeysPerMinute: 1_000,
    wrongLoginsPerMinute: 10,
    socketsPerMinute: 20_000,
    socketFramesPer10s: 20_000,
    eventSource: '/doorbuster',
    webhookAllowPrivate: false,
    attemptsKeepDays: 30,
    logLevel: 'info',
    platforms: { appAttest: null, playIntegrity: null },
    shopperJwt: { kind: 'none' },
  });
});

test('takes an empty value for a missing one', () => {
  expect(readConfig({ ...GIVEN, PORT: '', SHOPPER_JWT_SECRET: '' })).toMatchObject({
    port: 8102,
    shopperJwt: { kind: 'none' },
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

test('makes up secrets for a single process that is not in production, and says which', () => {
  const { REDIS_URL, DATABASE_URL } = GIVEN;
  const [config, other] = [readConfig({ REDIS_URL, DATABASE_URL }), readConfig({ REDIS_URL, DATABASE_URL })];
  expect(config.madeSecrets).toEqual(['ADMIN_API_KEYS', 'SERVICE_API_KEYS', 'ATTESTATION_KEYS', 'TICKET_KEYS']);
  expect(config.ticketKeys[0]?.key.length).toBe(32);
  expect(config.ticketKeys[0]?.key).not.toEqual(other.ticketKeys[0]?.key);
  expect(config.adminKeys[0]?.secret).not.toBe(other.adminKeys[0]?.secret);
});

test('does not start without its secrets in production, or with several processes that could not share them', () => {
  const { REDIS_URL, DATABASE_URL } = GIVEN;
  const names = ['ADMIN_API_KEYS', 'SERVICE_API_KEYS', 'ATTESTATION_KEYS', 'TICKET_KEYS'];
  expect(problemsOf({ REDIS_URL, DATABASE_URL, NODE_ENV: 'production' })).toEqual(
    names.map((name) => `${name} is missing: it is required in production`),
  );
  expect(problemsOf({ REDIS_URL, DATABASE_URL, API_PROCESSES: '2' })).toEqual(
    names.map((name) => `${name} is missing: it is required with more than one API process`),
  );
  expect(readConfig({ ...GIVEN, NODE_ENV: 'production', API_PROCESSES: '4' })).toMatchObject({
    production: true,
    apiProcesses: 4,
  });
});

test('takes a login by key set or by secret, not both', () => {
  const url = 'https://login.example/jwks.json';
  expect(readConfig({ ...GIVEN, SHOPPER_JWT_JWKS: url }).shopperJwt).toEqual({ kind: 'jwks', url: new URL(url) });
  const secret = 's'.repeat(32);
  expect(readConfig({ ...GIVEN, SHOPPER_JWT_SECRET: secret }).shopperJwt).toEqual({
    kind: 'secret',
    secret: new TextEncoder().encode(secret),
  });
  expect(problemsOf({ ...GIVEN, SHOPPER_JWT_JWKS: url, SHOPPER_JWT_SECRET: secret })).toEqual([
    'SHOPPER_JWT_JWKS and SHOPPER_JWT_SECRET: set one of them, not both',
  ]);
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
