import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { parseRedisUrl, type RedisTarget, redisUrlWithoutSecrets } from '../redis/redis-target.js';
import { IDENTITY_ENVIRONMENT, type IdentityConfig, identityOf, identityProblems } from './identity.js';
import { weakKeyProblems } from './key-strength.js';
import { PLATFORM_ENVIRONMENT, type Platforms, platformProblems, platformsOf } from './platforms.js';

/** Named secret of an operator or a service. */
export type ApiKey = { name: string; secret: string };
/**
 * Signing key with its id; the first of a list signs, all verify. A key object, because Node 24 spends 15 µs on each HMAC whose
 * key is a Buffer.
 */
export type SigningKey = { id: string; key: KeyObject };

export type Config = {
  production: boolean;
  port: number;
  host: string;
  /** Listener of its own for metrics, health, the dashboard of jobs and the operator's page; null = all on `port`. */
  opsPort: number | null;
  redis: RedisTarget;
  /** Replicas that must have a promise before it is returned; 0 = none. */
  waitReplicas: number;
  databaseUrl: string;
  adminKeys: ApiKey[];
  serviceKeys: ApiKey[];
  attestationKeys: SigningKey[];
  ticketKeys: SigningKey[];
  apiProcesses: number;
  /** Names of secrets that were not given and were made for this process alone; never in production. */
  madeSecrets: readonly string[];
  trustProxy: number;
  /** Origins whose pages may call from a browser, as browsers send them. */
  shopOrigins: readonly string[];
  idempotencyTtlMs: number;
  journalLimitEntries: number;
  tokensPerMinutePerAddress: number;
  freeTokensPerMinute: number;
  pollsPer10sPerCaller: number;
  validatePerMinutePerUser: number;
  redeemPerMinutePerUser: number;
  redeemPerMinutePerAddress: number;
  unknownCodesPerMinute: number;
  checkoutPerMinutePerAddress: number;
  wrongKeysPerMinute: number;
  wrongLoginsPerMinute: number;
  socketsPerMinute: number;
  socketFramesPer10s: number;
  logLevel: string;
  /** `source` of events. */
  eventSource: string;
  webhookAllowPrivate: boolean;
  /** 0 = attempts are not recorded */
  attemptsKeepDays: number;
  platforms: Platforms;
  identity: IdentityConfig;
};

/** What is wrong with the environment, all of it at once. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  constructor(readonly problems: readonly string[]) {
    super(`the environment is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
  }
}

const MIN_SIGNING_BYTES = 32;
const MIN_SECRET_CHARACTERS = 16;

const integer = (minimum: number, maximum: number) =>
  z
    .string()
    .regex(/^\d+$/, 'must be a whole number')
    .transform(Number)
    .refine((n) => n >= minimum && n <= maximum, `must be from ${minimum} to ${maximum}`);

const url = (protocols: readonly string[]) =>
  z.string().refine(
    (value) => {
      try {
        return protocols.includes(new URL(value).protocol);
      } catch {
        return false;
      }
    },
    `must be a URL starting with ${protocols.map((p) => `${p}//`).join(' or ')}`,
  );

const redisUrl = z.string().transform((value, context): RedisTarget => {
  const parsed = parseRedisUrl(value);
  if ('target' in parsed) return parsed.target;
  context.addIssue({ code: 'custom', message: parsed.problem });
  return z.NEVER;
});

const origins = z.string().transform((value, context): string[] =>
  value.split(',').map((entry) => {
    const origin = entry.trim();
    // Of schemes that are not the web's, as an app's own page has, `URL` knows no origin.
    const isOrigin = /^https?:[^*]*$/.test(origin)
      ? URL.canParse(origin) && new URL(origin).origin === origin
      : /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9.-]+(:\d+)?$/.test(origin);
    if (!isOrigin)
      context.addIssue({
        code: 'custom',
        message: `must be origins like https://shop.example, in lower case and without a path; \`${origin}\` is none`,
      });
    return origin;
  }),
);

const apiKeys = z.string().transform((value, context): ApiKey[] =>
  value.split(',').map((entry) => {
    const [, name, secret] = /^\s*([A-Za-z0-9_.-]+):(\S+)\s*$/.exec(entry) ?? [];
    if (!name || !secret) context.addIssue({ code: 'custom', message: 'must be name:secret, comma-separated' });
    else if (secret.length < MIN_SECRET_CHARACTERS)
      context.addIssue({
        code: 'custom',
        message: `secret of ${name} must have at least ${MIN_SECRET_CHARACTERS} characters`,
      });
    return { name: name ?? '', secret: secret ?? '' };
  }),
);

const signingKeys = z.string().transform((value, context): SigningKey[] => {
  const keys = value.split(',').map((entry) => {
    const [, id, encoded] = /^\s*([A-Za-z0-9_-]{1,16}):([A-Za-z0-9+/_-]+=*)\s*$/.exec(entry) ?? [];
    const bytes = Buffer.from(encoded ?? '', 'base64');
    if (!id) context.addIssue({ code: 'custom', message: 'must be kid:base64, comma-separated' });
    else if (bytes.length < MIN_SIGNING_BYTES)
      context.addIssue({ code: 'custom', message: `key ${id} must have at least ${MIN_SIGNING_BYTES} bytes` });
    return { id: id ?? '', key: createSecretKey(bytes) };
  });
  if (new Set(keys.map(({ id }) => id)).size !== keys.length)
    context.addIssue({ code: 'custom', message: 'must not name a key id twice' });
  return keys;
});

/**
 * The environment: name → what is read, with its default and meaning. `.env.example` and docs/configuration.md are made
 * from this table (`npm run docs`).
 */
export const ENVIRONMENT = {
  NODE_ENV: z.string().default('development').describe('`production`: a missing or too short secret stops the start'),
  PORT: integer(0, 65_535).default(8102).describe('port of the API; 0 = any free one'),
  HOST: z.string().min(1).default('127.0.0.1').describe('address the API listens on'),
  OPS_PORT: integer(0, 65_535)
    .optional()
    .describe(
      'port for `/metrics`, `/livez`, `/readyz`, `/admin` and `/admin/queues`, to be reached by operators alone; `/metrics` and `/admin/queues` are then not on PORT. Unset: all on PORT',
    ),
  REDIS_URL: redisUrl.describe(
    'Redis 7 or newer with `maxmemory-policy noeviction`: `redis://[user:password@]host[:port][/db]`, `rediss://…[?ca=/path/to/ca.pem]` for TLS, or `redis+sentinel://[user:password@]h1[:port],h2,h3/name[/db]` with `sentinel_user`, `sentinel_password`, `tls=1` and `ca` as parameters; `rediss+sentinel://` is TLS to the Sentinels as well. User and password are percent-encoded. Production needs `appendonly yes` with `appendfsync always`, or REDIS_WAIT_REPLICAS',
  ),
  REDIS_WAIT_REPLICAS: integer(0, 5)
    .optional()
    .describe(
      'replicas that must have a promise before it is returned; without them the response is 503 and a retry gets the answer. Default: 1 with Sentinel, otherwise 0. A failover leaves one replica less, so have one more than this',
    ),
  DATABASE_URL: url(['postgres:', 'postgresql:']).describe('Postgres 14 or newer'),
  ADMIN_API_KEYS: apiKeys.optional().describe('secrets of operators, comma-separated `name:secret`'),
  SERVICE_API_KEYS: apiKeys.optional().describe('secrets of payment and cart services, comma-separated `name:secret`'),
  ATTESTATION_KEYS: signingKeys
    .optional()
    .describe(
      'keys of device tokens, comma-separated `kid:base64`, at least 32 bytes each; the first signs, all verify',
    ),
  TICKET_KEYS: signingKeys.optional().describe('keys of tickets, in the same form'),
  API_PROCESSES: integer(1, 64).default(1).describe('API processes sharing the port'),
  TRUST_PROXY: integer(0, 10).default(0).describe('how many proxies in front may set the client address'),
  SHOP_ORIGINS: origins
    .default([])
    .describe(
      'comma-separated origins (`https://shop.example`) whose pages may call from a browser and open sockets; the pages of this server always may',
    ),
  IDEMPOTENCY_TTL_SECONDS: integer(600, 30 * 86_400)
    .default(86_400)
    .describe('how long an answer is replayed, seconds'),
  JOURNAL_LIMIT: integer(1_000, 50_000_000)
    .default(2_000_000)
    .describe('promises the journal may hold while Postgres is away; then 503. About 320 bytes of Redis each'),
  TOKENS_PER_MINUTE: integer(1, 100_000_000)
    .default(120_000)
    .describe('device tokens for one network (IPv4 address or IPv6 /64) in a minute'),
  FREE_TOKENS_PER_MINUTE: integer(0, 100_000_000)
    .default(60_000)
    .describe('of these, those that cost no work while a campaign with `risk: enforce` is live'),
  POLLS_PER_10_SECONDS: integer(10, 1_000_000)
    .default(300)
    .describe('queue-status calls for one shopper from one network in ten seconds'),
  VALIDATE_PER_MINUTE_PER_USER: integer(1, 1_000_000)
    .default(10)
    .describe('checks of codes by one user in a minute; a campaign may say otherwise in `limits`'),
  REDEEM_PER_MINUTE_PER_USER: integer(1, 1_000_000)
    .default(5)
    .describe('redemptions tried by one user in a minute; a campaign may say otherwise in `limits`'),
  REDEEM_PER_MINUTE_PER_ADDRESS: integer(1, 10_000_000)
    .default(20)
    .describe(
      'redemptions tried from one network in a minute before each needs a solved challenge, in campaigns with `risk: enforce`; elsewhere only counted',
    ),
  UNKNOWN_CODES_PER_MINUTE: integer(1, 10_000_000)
    .default(300)
    .describe(
      'codes from one network in a minute, in each API process, that were never issued or of which a campaign tells nothing; further ones get 429, right ones go on being served',
    ),
  CHECKOUTS_PER_MINUTE_PER_ADDRESS: integer(1, 100_000_000)
    .default(1_200)
    .describe(
      'checkouts tried from one network in a minute before each needs a solved challenge, in campaigns with `risk: enforce`; elsewhere only counted',
    ),
  WRONG_KEYS_PER_MINUTE: integer(1, 1_000_000)
    .default(1_000)
    .describe('wrong API keys from one network in a minute, in each API process; then wrong ones get 429'),
  WRONG_LOGINS_PER_MINUTE: integer(1, 1_000_000)
    .default(10)
    .describe(
      'wrong keys on the operator’s page from one network in a minute, in each API process; then wrong ones get 429',
    ),
  SOCKETS_PER_MINUTE: integer(1, 10_000_000)
    .default(20_000)
    .describe('sockets that one network may open in a minute, in each API process'),
  SOCKET_FRAMES_PER_10_SECONDS: integer(1, 10_000_000)
    .default(20_000)
    .describe('frames from all sockets of one network in ten seconds, in each API process'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
    .default('info')
    .describe('least level that is logged'),
  EVENT_SOURCE: z
    .string()
    .regex(/^[\x21-\x7e]{1,256}$/, 'must be a URI reference')
    .default('/doorbuster')
    .describe('`source` of the events; a URI reference that tells this installation from others'),
  WEBHOOK_ALLOW_PRIVATE: z
    .enum(['0', '1'])
    .default('0')
    .describe('`1` = webhooks may go to private addresses; only where operators are trusted with the whole network'),
  ATTEMPTS_KEEP_DAYS: integer(0, 3_650)
    .default(30)
    .describe('how long attempts to use codes are kept, days; 0 = they are not recorded'),
  ...IDENTITY_ENVIRONMENT,
  SHOPPER_SIGNING_KEYS: signingKeys
    .optional()
    .describe('`signed`: keys of hand-overs, in the form of ATTESTATION_KEYS; the shop signs with one of them'),
  ...PLATFORM_ENVIRONMENT,
};

/** Secrets that production must be given. */
const REQUIRED_SECRETS = ['ADMIN_API_KEYS', 'SERVICE_API_KEYS', 'ATTESTATION_KEYS', 'TICKET_KEYS'] as const;

const makeApiKey = (name: string): ApiKey => ({ name, secret: randomBytes(24).toString('base64url') });
const makeSigningKey = (): SigningKey => ({ id: 'made', key: createSecretKey(randomBytes(MIN_SIGNING_BYTES)) });

/** Names whose value is never repeated in a message, or only without its secrets. */
export const SECRET_NAMES: ReadonlySet<string> = new Set([
  'ADMIN_API_KEYS',
  'SERVICE_API_KEYS',
  'ATTESTATION_KEYS',
  'TICKET_KEYS',
  'SHOPPER_JWT_SECRET',
  'SHOPPER_SIGNING_KEYS',
  'PLAY_INTEGRITY_DECRYPTION_KEY',
  'REDIS_URL',
  'DATABASE_URL',
]);

/**
 * The addresses of the engines alone, for a command that needs nothing else.
 * @throws ConfigError
 */
export function readEngineUrls(env: NodeJS.ProcessEnv = process.env): { redis: RedisTarget; databaseUrl: string } {
  const { REDIS_URL, DATABASE_URL } = ENVIRONMENT;
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const parsed = z.object({ REDIS_URL, DATABASE_URL }).safeParse(given);
  if (!parsed.success) throw new ConfigError(valueProblems(parsed.error.issues, given));
  return { redis: parsed.data.REDIS_URL, databaseUrl: parsed.data.DATABASE_URL };
}

type Given = Record<string, string | undefined>;

function valueProblems(issues: readonly z.core.$ZodIssue[], given: Given): string[] {
  return issues.map((issue) => {
    const name = String(issue.path[0]);
    const value = given[name];
    if (value === undefined) return `${name} is missing`;
    const shown = name === 'REDIS_URL' ? redisUrlWithoutSecrets(value) : SECRET_NAMES.has(name) ? null : value;
    return `${name}${shown === null ? '' : ` = ${JSON.stringify(shown)}`}: ${issue.message}`;
  });
}

/** What is wrong with values beside each other. Judged by what was given, so that no other mistake hides it. */
function togetherProblems(given: Given): string[] {
  const when =
    given.NODE_ENV === 'production'
      ? 'in production'
      : Number(given.API_PROCESSES) > 1
        ? 'with more than one API process'
        : null;
  const problems: string[] = REQUIRED_SECRETS.filter((name) => when !== null && given[name] === undefined).map(
    (name) => `${name} is missing: it is required ${when}`,
  );
  if (given.OPS_PORT && Number(given.OPS_PORT) > 0 && given.OPS_PORT === (given.PORT ?? '8102')) {
    problems.push(`OPS_PORT = "${given.OPS_PORT}": must be another port than PORT`);
  }
  if (given.NODE_ENV === 'production') problems.push(...weakKeyProblems(given));
  return [...problems, ...identityProblems(given), ...platformProblems(given)];
}

/**
 * Reads the environment once and whole. An empty value counts as unset.
 * @throws ConfigError with every mistake: name, value (never of a secret) and what is expected
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const parsed = z.object(ENVIRONMENT).safeParse(given);
  const problems = [...valueProblems(parsed.error?.issues ?? [], given), ...togetherProblems(given)];
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  const e = parsed.data;
  return {
    production: e.NODE_ENV === 'production',
    port: e.PORT,
    host: e.HOST,
    opsPort: e.OPS_PORT ?? null,
    redis: e.REDIS_URL,
    waitReplicas: e.REDIS_WAIT_REPLICAS ?? (e.REDIS_URL.kind === 'sentinel' ? 1 : 0),
    databaseUrl: e.DATABASE_URL,
    adminKeys: e.ADMIN_API_KEYS ?? [makeApiKey('admin')],
    serviceKeys: e.SERVICE_API_KEYS ?? [makeApiKey('payments')],
    attestationKeys: e.ATTESTATION_KEYS ?? [makeSigningKey()],
    ticketKeys: e.TICKET_KEYS ?? [makeSigningKey()],
    madeSecrets: REQUIRED_SECRETS.filter((name) => e[name] === undefined),
    apiProcesses: e.API_PROCESSES,
    trustProxy: e.TRUST_PROXY,
    shopOrigins: e.SHOP_ORIGINS,
    idempotencyTtlMs: e.IDEMPOTENCY_TTL_SECONDS * 1000,
    journalLimitEntries: e.JOURNAL_LIMIT,
    tokensPerMinutePerAddress: e.TOKENS_PER_MINUTE,
    freeTokensPerMinute: e.FREE_TOKENS_PER_MINUTE,
    pollsPer10sPerCaller: e.POLLS_PER_10_SECONDS,
    validatePerMinutePerUser: e.VALIDATE_PER_MINUTE_PER_USER,
    redeemPerMinutePerUser: e.REDEEM_PER_MINUTE_PER_USER,
    redeemPerMinutePerAddress: e.REDEEM_PER_MINUTE_PER_ADDRESS,
    unknownCodesPerMinute: e.UNKNOWN_CODES_PER_MINUTE,
    checkoutPerMinutePerAddress: e.CHECKOUTS_PER_MINUTE_PER_ADDRESS,
    wrongKeysPerMinute: e.WRONG_KEYS_PER_MINUTE,
    wrongLoginsPerMinute: e.WRONG_LOGINS_PER_MINUTE,
    socketsPerMinute: e.SOCKETS_PER_MINUTE,
    socketFramesPer10s: e.SOCKET_FRAMES_PER_10_SECONDS,
    logLevel: e.LOG_LEVEL,
    eventSource: e.EVENT_SOURCE,
    webhookAllowPrivate: e.WEBHOOK_ALLOW_PRIVATE === '1',
    attemptsKeepDays: e.ATTEMPTS_KEEP_DAYS,
    platforms: platformsOf(e),
    identity: identityOf(e),
  };
}

/** Reads the configuration for a process that cannot go on without it: prints every mistake and exits with 1. */
export function readConfigOrExit(): Config {
  try {
    return readConfig();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}
