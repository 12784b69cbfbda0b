import { createSecretKey, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { ShardCount } from '../domain/shards.js';
import { type RedisTarget, redisUrlWithoutSecrets } from '../redis/redis-target.js';
import { type ChallengeProvider, challengeProblems, challengeProviderOf } from './challenge-provider.js';
import { type ApiRole, ENVIRONMENT, REQUIRED_SECRETS, SECRET_NAMES } from './environment.js';
import { type ApiKey, MIN_SIGNING_BYTES, SELF, type SigningKey } from './environment-values.js';
import { type IdentityConfig, identityOf, identityProblems } from './identity.js';
import { type KafkaConfig, kafkaOf, kafkaProblems } from './kafka.js';
import { weakKeyProblems } from './key-strength.js';
import { type OidcConfig, oidcOf, oidcProblems } from './oidc.js';
import { type PaymentConfig, paymentsOf } from './payments.js';
import { type Platforms, platformProblems, platformsOf } from './platforms.js';
import { type PushConfig, pushOf, pushProblems } from './push.js';
import { type RegionsConfig, regionsOf, regionsProblems } from './regions.js';
import { type RetentionConfig, retentionOf } from './retention.js';
import { type TracingConfig, tracingOf } from './tracing.js';

export type Config = {
  production: boolean;
  port: number;
  host: string;
  /**
   * Port of a separate listener for metrics, health, the dashboard of jobs and the operator's page; null = all on
   * `port`.
   */
  opsPort: number | null;
  /** Port of the probes of a worker; null = a worker has no listener. */
  workerPort: number | null;
  redis: RedisTarget;
  shards: ShardCount;
  /** How many replicas must have a promise before it is returned; 0 = none. */
  waitReplicas: number;
  databaseUrl: string;
  /** null = no replica */
  databaseReadUrl: string | null;
  adminKeys: ApiKey[];
  serviceKeys: ApiKey[];
  attestationKeys: SigningKey[];
  ticketKeys: SigningKey[];
  /** Empty = links to pay cannot be signed. */
  payLinkKeys: SigningKey[];
  apiProcesses: number;
  apiRole: ApiRole;
  /** Of APIs that write, without a slash at the end; null unless `apiRole` is `read`. */
  apiWriteUrl: string | null;
  /** Names of secrets that were not set, and were generated for this process alone. Empty in production. */
  madeSecrets: readonly string[];
  trustProxy: number;
  /** Origins whose pages may call the API from a browser, in the form that browsers send. */
  shopOrigins: readonly string[];
  /** Origins whose pages may show the sale page in a frame. */
  frameAncestors: readonly string[];
  /** Origins from which sale pages may load pictures. */
  imageOrigins: readonly string[];
  /** A folder; null = the built-in languages alone. */
  pageLanguages: string | null;
  /** Addresses and ranges (CIDR) of the shop's servers. */
  shopNetworks: readonly string[];
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
  /** Share of its limits at which a process switches off what matters least, percent; 0 = never. */
  degradeAtPercent: number;
  socketsPerMinute: number;
  socketFramesPer10s: number;
  logLevel: string;
  logFormat: 'json' | 'pretty';
  /** The `source` attribute of events. */
  eventSource: string;
  webhookAllowPrivate: boolean;
  /** NODE_ENV=development, as `npm start` has it */
  development: boolean;
  /** Whether `/` may show the keys to callers on this machine. */
  showsKeys: boolean;
  /** null = events do not go to Kafka */
  kafka: KafkaConfig | null;
  payments: PaymentConfig;
  /** null = no notifications by Web Push */
  push: PushConfig | null;
  /** 0 = attempts are not recorded */
  attemptsKeepDays: number;
  retention: RetentionConfig;
  platforms: Platforms;
  /** null = no challenges that a person solves */
  challengeProvider: ChallengeProvider | null;
  identity: IdentityConfig;
  /** null = operators log in with keys only */
  oidc: OidcConfig | null;
  /** null = this installation is the only one */
  regions: RegionsConfig | null;
  /** null = no spans */
  tracing: TracingConfig | null;
};

/** The environment is not valid. Has all problems at once. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  constructor(readonly problems: readonly string[]) {
    super(`the environment is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
  }
}

const makeApiKey = (name: string): ApiKey => ({ name, secret: randomBytes(24).toString('base64url') });
const makeSigningKey = (): SigningKey => ({ id: 'made', key: createSecretKey(randomBytes(MIN_SIGNING_BYTES)) });

/** `databaseReadUrl`: null = no replica. */
export type EngineUrls = {
  redis: RedisTarget;
  shards: ShardCount;
  databaseUrl: string;
  databaseReadUrl: string | null;
};

/**
 * Reads only the addresses of Redis and Postgres, for a command that needs nothing else.
 * @throws ConfigError
 */
export function readEngineUrls(env: NodeJS.ProcessEnv = process.env): EngineUrls {
  const { REDIS_URL, SHARDS, DATABASE_URL, DATABASE_READ_URL } = ENVIRONMENT;
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const parsed = z.object({ REDIS_URL, SHARDS, DATABASE_URL, DATABASE_READ_URL }).safeParse(given);
  if (!parsed.success) throw new ConfigError(valueProblems(parsed.error.issues, given));
  const { data } = parsed;
  const { REDIS_URL: redis, SHARDS: shards, DATABASE_URL: databaseUrl } = data;
  return { redis, shards, databaseUrl, databaseReadUrl: data.DATABASE_READ_URL ?? null };
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

/**
 * Problems of values that do not fit together. They are found in the raw environment, so that invalid values do not
 * hide them.
 */
function togetherProblems(given: Given): string[] {
  const when =
    given.NODE_ENV === 'production'
      ? 'in production'
      : Number(given.API_PROCESSES) > 1
        ? 'with more than one API process'
        : (given.API_ROLE ?? 'all') === 'all'
          ? null
          : 'with API_ROLE, because several processes need the same';
  const problems: string[] = REQUIRED_SECRETS.filter((name) => when !== null && given[name] === undefined).map(
    (name) => `${name} is missing: it is required ${when}`,
  );
  if (given.OPS_PORT && Number(given.OPS_PORT) > 0 && given.OPS_PORT === (given.PORT ?? '8102')) {
    problems.push(`OPS_PORT = "${given.OPS_PORT}": must be another port than PORT`);
  }
  if (given.NODE_ENV === 'production') problems.push(...weakKeyProblems(given));
  return [
    ...problems,
    ...identityProblems(given),
    ...oidcProblems(given),
    ...kafkaProblems(given),
    ...platformProblems(given),
    ...challengeProblems(given),
    ...pushProblems(given),
    ...regionsProblems(given),
  ];
}

/**
 * Reads the whole environment. An empty value counts as unset.
 * @throws ConfigError with every problem: name, value (except of secrets) and the expected value
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const parsed = z.object(ENVIRONMENT).safeParse(given);
  const problems = [...valueProblems(parsed.error?.issues ?? [], given), ...togetherProblems(given)];
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  const e = parsed.data;
  // Only if it says so: a process without NODE_ENV may be in a network with services to protect.
  const development = given.NODE_ENV === 'development';
  return {
    production: e.NODE_ENV === 'production',
    port: e.PORT,
    host: e.HOST,
    opsPort: e.OPS_PORT ?? null,
    workerPort: e.WORKER_PORT ?? null,
    redis: e.REDIS_URL,
    shards: e.SHARDS,
    waitReplicas: e.REDIS_WAIT_REPLICAS ?? (e.REDIS_URL.kind === 'server' ? 0 : 1),
    databaseUrl: e.DATABASE_URL,
    databaseReadUrl: e.DATABASE_READ_URL ?? null,
    adminKeys: e.ADMIN_API_KEYS ?? [makeApiKey('admin')],
    serviceKeys: e.SERVICE_API_KEYS ?? [makeApiKey('payments')],
    attestationKeys: e.ATTESTATION_KEYS ?? [makeSigningKey()],
    ticketKeys: e.TICKET_KEYS ?? [makeSigningKey()],
    payLinkKeys: e.PAY_LINK_KEYS ?? [],
    madeSecrets: REQUIRED_SECRETS.filter((name) => e[name] === undefined),
    apiProcesses: e.API_PROCESSES,
    apiRole: e.API_ROLE,
    apiWriteUrl: e.API_ROLE === 'read' ? (e.API_WRITE_URL?.replace(/\/+$/, '') ?? null) : null,
    trustProxy: e.TRUST_PROXY,
    shopOrigins: e.SHOP_ORIGINS,
    frameAncestors: e.SALE_PAGE_FRAME_ANCESTORS.filter((origin) => origin !== SELF && origin !== 'self'),
    imageOrigins: e.IMAGE_ORIGINS,
    pageLanguages: e.SALE_PAGE_LANGUAGES ?? null,
    shopNetworks: e.SHOP_NETWORKS,
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
    degradeAtPercent: e.DEGRADE_AT,
    socketsPerMinute: e.SOCKETS_PER_MINUTE,
    socketFramesPer10s: e.SOCKET_FRAMES_PER_10_SECONDS,
    logLevel: e.LOG_LEVEL,
    logFormat: e.LOG_FORMAT,
    eventSource: e.EVENT_SOURCE,
    webhookAllowPrivate: e.WEBHOOK_ALLOW_PRIVATE === undefined ? development : e.WEBHOOK_ALLOW_PRIVATE === '1',
    development,
    showsKeys: development && e.DEMO === '1' && e.TRUST_PROXY === 0,
    kafka: kafkaOf(e),
    payments: paymentsOf(e),
    push: pushOf(e, development),
    attemptsKeepDays: e.ATTEMPTS_KEEP_DAYS,
    retention: retentionOf(e),
    platforms: platformsOf(e),
    challengeProvider: challengeProviderOf(e),
    identity: identityOf(e),
    oidc: oidcOf(e),
    regions: regionsOf(e),
    tracing: tracingOf(e),
  };
}

/**
 * Reads the environment for a command that works on the datastores alone: no secret is required.
 * @throws ConfigError
 */
export function readCommandConfig(): Config {
  return readConfig({ ...process.env, NODE_ENV: 'development' });
}

/**
 * Reads the configuration. If it is not valid, prints every problem and exits with 1.
 * @param given settings that go before those of the environment
 * @param problemOf what else a process needs; null = nothing is missing
 */
export function readConfigOrExit(
  given: Record<string, string> = {},
  problemOf: (config: Config) => string | null = () => null,
): Config {
  try {
    const config = readConfig({ ...process.env, ...given });
    const problem = problemOf(config);
    if (problem !== null) throw new ConfigError([problem]);
    return config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}
