import { z } from 'zod';
import { LONGEST_IDEMPOTENCY_TTL_MS } from '../domain/idempotency.js';
import { SHARD_COUNTS, type ShardCount } from '../domain/shards.js';
import { CHALLENGE_ENVIRONMENT } from './challenge-provider.js';
import {
  apiKeys,
  frameAncestors,
  integer,
  networks,
  origins,
  pictureOrigins,
  redisUrl,
  SELF,
  signingKeys,
  url,
} from './environment-values.js';
import { IDENTITY_ENVIRONMENT } from './identity.js';
import { KAFKA_ENVIRONMENT } from './kafka.js';
import { OIDC_ENVIRONMENT, OIDC_SECRETS } from './oidc.js';
import { PAYMENT_ENVIRONMENT, PAYMENT_SECRETS } from './payments.js';
import { PLATFORM_ENVIRONMENT } from './platforms.js';
import { PUSH_ENVIRONMENT } from './push.js';
import { REGIONS_ENVIRONMENT } from './regions.js';
import { RETENTION_ENVIRONMENT } from './retention.js';
import { TRACING_ENVIRONMENT } from './tracing.js';

/** What an API process serves: everything, or only what reads or what writes (api/http/process-role.ts). */
export const API_ROLES = ['all', 'read', 'write'] as const;
export type ApiRole = (typeof API_ROLES)[number];

/**
 * The environment: name → its form, default and meaning. `.env.example` and docs/configuration.md are made
 * from this table (`npm run docs`).
 */
export const ENVIRONMENT = {
  NODE_ENV: z.string().default('development').describe('`production`: a missing or short secret stops the start'),
  PORT: integer(0, 65_535).default(8102).describe('port of the API; 0 = any free one'),
  HOST: z.string().min(1).default('127.0.0.1').describe('address the API listens on'),
  OPS_PORT: integer(0, 65_535)
    .optional()
    .describe(
      'port for `/metrics`, `/livez`, `/readyz`, `/admin` and `/admin/queues` that only operators can reach; PORT then has neither `/metrics` nor `/admin/queues`. Unset: PORT has all of them',
    ),
  WORKER_PORT: integer(0, 65_535)
    .optional()
    .describe(
      'port on HOST at which a worker responds to `/livez`, `/readyz` and `/metrics`; 0 = any free one. Each worker of a machine needs its own. Unset: a worker has no port',
    ),
  REDIS_URL: redisUrl.describe(
    'Redis 7 or newer with `maxmemory-policy noeviction`: `redis://[user:password@]host[:port][/db]`, `rediss://…[?ca=/path/to/ca.pem]` for TLS, or `redis+sentinel://[user:password@]h1[:port],h2,h3/name[/db]` with `sentinel_user`, `sentinel_password`, `tls=1` and `ca` as parameters; `rediss+sentinel://` is TLS to the Sentinels as well; or `redis+cluster://[user:password@]h1[:port],h2[?namespace=name]` for a cluster, of which some nodes are enough. User and password are percent-encoded. Production needs `appendonly yes` with `appendfsync always`, or REDIS_WAIT_REPLICAS',
  ),
  REDIS_WAIT_REPLICAS: integer(0, 5)
    .optional()
    .describe(
      'replicas that must confirm a promise before it is returned. If they do not, the response is 503 and a retry returns the promise. Default: 1 with Sentinel and on a cluster, otherwise 0. A failover leaves one replica fewer, so run one more than this',
    ),
  SHARDS: integer(1, 64)
    .refine((value): value is ShardCount => (SHARD_COUNTS as readonly number[]).includes(value), {
      error: `must be one of ${SHARD_COUNTS.join(', ')}`,
    })
    .default(1)
    .describe(
      'shards of Redis, over which campaigns spread; on a cluster, each shard is on one node. 16 are enough for 8 nodes. All processes must have the same number, and `npm run reshard` changes it',
    ),
  DATABASE_URL: url(['postgres:', 'postgresql:']).describe(
    'Postgres 14 or newer, or PgBouncer before it (docs/postgres.md)',
  ),
  DATABASE_READ_URL: url(['postgres:', 'postgresql:'])
    .optional()
    .describe(
      'a streaming replica of it, for exports, pages of redemptions and the ledger, which name the journal entry up to which they are complete. With API_ROLE=read also for terms, codes and policies. While it is away or more than two seconds behind, DATABASE_URL is used',
    ),
  ADMIN_API_KEYS: apiKeys.optional().describe('secrets of operators, comma-separated `name:secret`'),
  SERVICE_API_KEYS: apiKeys.optional().describe('secrets of payment and cart services, comma-separated `name:secret`'),
  ATTESTATION_KEYS: signingKeys
    .optional()
    .describe(
      'keys of device tokens, comma-separated `kid:base64`, at least 32 bytes each; the first signs, all verify',
    ),
  TICKET_KEYS: signingKeys.optional().describe('keys of tickets, in the same form'),
  PAY_LINK_KEYS: signingKeys
    .optional()
    .describe(
      'keys of the signature in `checkout_url`, in the same form; the shop has the same keys. Unset: no campaign can use `{signature}`',
    ),
  API_ROLE: z
    .enum(API_ROLES, `must be one of ${API_ROLES.join(', ')}`)
    .default('all')
    .describe(
      'what an API serves: `read` (validation of codes, queue-status, sockets, pages), `write` (all else), or `all`; also `--role`. ' +
        'What it does not serve is 421 (docs/deployment.md)',
    ),
  API_WRITE_URL: url(['http:', 'https:'])
    .refine((value) => !/[?#@]/.test(value), 'must have no user, query or fragment')
    .optional()
    .describe('`read`: URL of the APIs that write, for shoppers who leave the line over a socket'),
  API_PROCESSES: integer(1, 64).default(1).describe('API processes sharing the port'),
  TRUST_PROXY: integer(0, 10)
    .default(0)
    .describe('number of trusted proxies in front; the client address is read from `X-Forwarded-For` behind them'),
  SALE_PAGE_FRAME_ANCESTORS: frameAncestors
    .default([SELF])
    .describe(
      'comma-separated origins (`https://shop.example`) whose pages may show the sale page in a frame; pages of this server always may',
    ),
  IMAGE_ORIGINS: pictureOrigins
    .default([])
    .describe(
      'comma-separated https origins (`https://images.example`) from which sale pages may load pictures. Unset: no campaign has any',
    ),
  SALE_PAGE_LANGUAGES: z
    .string()
    .optional()
    .describe('folder with languages of the sale page, a file for each, such as `fr.json` (docs/sale-page.md)'),
  SHOP_ORIGINS: origins
    .default([])
    .describe(
      'comma-separated origins (`https://shop.example`) whose pages may call the API from a browser and open sockets; pages of this server always may',
    ),
  SHOP_NETWORKS: networks
    .default([])
    .describe(
      'comma-separated addresses or networks (`203.0.113.7,2001:db8::/64`) of the shop’s own servers that call for many users; under load their requests take turns by user and connection, not as those of one client',
    ),
  IDEMPOTENCY_TTL_SECONDS: integer(600, LONGEST_IDEMPOTENCY_TTL_MS / 1000)
    .default(86_400)
    .describe('how long a response is replayed for its idempotency key, seconds'),
  JOURNAL_LIMIT: integer(1_000, 50_000_000)
    .default(2_000_000)
    .describe(
      'promises that the journal may hold while Postgres is away; beyond it checkouts get 503. About 320 bytes of Redis each',
    ),
  TOKENS_PER_MINUTE: integer(1, 100_000_000)
    .default(120_000)
    .describe('device tokens for one network (IPv4 address or IPv6 /64) in a minute'),
  FREE_TOKENS_PER_MINUTE: integer(0, 100_000_000)
    .default(60_000)
    .describe(
      'how many of these are issued without a proof of work while a campaign with `risk: enforce` or `strict` is live',
    ),
  POLLS_PER_10_SECONDS: integer(10, 1_000_000)
    .default(300)
    .describe('queue-status calls for one shopper from one network in ten seconds'),
  VALIDATE_PER_MINUTE_PER_USER: integer(1, 1_000_000)
    .default(10)
    .describe(
      'validations of codes by one user: as many at once, and as many in each minute after that; `limits` of a campaign may override it',
    ),
  REDEEM_PER_MINUTE_PER_USER: integer(1, 1_000_000)
    .default(5)
    .describe(
      'attempts to redeem by one user: as many at once, and as many in each minute after that; `limits` of a campaign may override it',
    ),
  REDEEM_PER_MINUTE_PER_ADDRESS: integer(1, 10_000_000)
    .default(20)
    .describe(
      'attempts to redeem from one network in a minute; beyond it each needs a solved challenge in campaigns with `risk: enforce`, and is only counted in others',
    ),
  UNKNOWN_CODES_PER_MINUTE: integer(1, 10_000_000)
    .default(300)
    .describe(
      'unknown codes from one network in a minute, in each API process, or with API_ROLE in all together, including codes of campaigns with uniform refusals; further unknown ones get 429, valid ones are still served',
    ),
  CHECKOUTS_PER_MINUTE_PER_ADDRESS: integer(1, 100_000_000)
    .default(1_200)
    .describe(
      'checkouts from one network in a minute; beyond it each needs a solved challenge in campaigns with `risk: enforce`, and is only counted in others',
    ),
  WRONG_KEYS_PER_MINUTE: integer(1, 1_000_000)
    .default(1_000)
    .describe('wrong API keys from one network in a minute, in each API process; further wrong ones get 429'),
  WRONG_LOGINS_PER_MINUTE: integer(1, 1_000_000)
    .default(10)
    .describe(
      'wrong keys on the operator’s page from one network in a minute, in each API process; further wrong ones get 429',
    ),
  DEGRADE_AT: integer(0, 100)
    .default(50)
    .describe(
      'share of its limits, in percent, from which on an API process sends positions rarely, then lets shoppers poll less often, then refuses ' +
        '`POST /coupons/validate`, so that checkouts go on; 0 = never (docs/runbook.md)',
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
    .describe('lowest level that is logged'),
  LOG_FORMAT: z
    .enum(['json', 'pretty'])
    .default('json')
    .describe('`json` = a JSON object a line; `pretty` = lines for people, for development'),
  EVENT_SOURCE: z
    .string()
    .regex(/^[\x21-\x7e]{1,256}$/, 'must be a URI reference')
    .default('/doorbuster')
    .describe('`source` of the events: a URI reference that identifies this installation'),
  WEBHOOK_ALLOW_PRIVATE: z
    .enum(['0', '1'])
    .optional()
    .describe(
      '`1` = webhooks may go to private addresses, as they may with `NODE_ENV=development` if this is unset. Operators can then ' +
        'reach every host of the network',
    ),
  DEMO: z
    .enum(['0', '1'])
    .optional()
    .describe(
      '`0` = no demo campaigns; unset: 1 under `npm start`, else 0. With 1, `/` shows keys that `npm start` generated to browsers on ' +
        'this machine',
    ),
  ...KAFKA_ENVIRONMENT,
  ATTEMPTS_KEEP_DAYS: integer(0, 3_650)
    .default(30)
    .describe('how long attempts to use codes are kept, days; 0 = they are not recorded'),
  ...RETENTION_ENVIRONMENT,
  ...IDENTITY_ENVIRONMENT,
  SHOPPER_SIGNING_KEYS: signingKeys
    .optional()
    .describe('`signed`: keys of hand-overs in the form of ATTESTATION_KEYS; the shop signs with one of them'),
  ...OIDC_ENVIRONMENT,
  ...PAYMENT_ENVIRONMENT,
  ...PUSH_ENVIRONMENT,
  ...PLATFORM_ENVIRONMENT,
  ...CHALLENGE_ENVIRONMENT,
  ...REGIONS_ENVIRONMENT,
  ...TRACING_ENVIRONMENT,
};

/** Secrets that must be set in production. */
export const REQUIRED_SECRETS = ['ADMIN_API_KEYS', 'SERVICE_API_KEYS', 'ATTESTATION_KEYS', 'TICKET_KEYS'] as const;

/** Names whose value is never repeated in a message, or only without its secrets. */
export const SECRET_NAMES: ReadonlySet<string> = new Set([
  'ADMIN_API_KEYS',
  'SERVICE_API_KEYS',
  'ATTESTATION_KEYS',
  'TICKET_KEYS',
  'PAY_LINK_KEYS',
  'SHOPPER_JWT_SECRET',
  'SHOPPER_SIGNING_KEYS',
  'PLAY_INTEGRITY_DECRYPTION_KEY',
  'CHALLENGE_SECRET',
  'KAFKA_PASSWORD',
  'REGION_KEYS',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'VAPID_PRIVATE_KEY',
  ...PAYMENT_SECRETS,
  ...OIDC_SECRETS,
  'REDIS_URL',
  'DATABASE_URL',
  'DATABASE_READ_URL',
]);
