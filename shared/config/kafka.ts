import { z } from 'zod';
import { integer } from './environment-values.js';

export type KafkaBroker = { host: string; port: number };
export type KafkaSasl = { mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'; username: string; password: string };
/** Paths of PEM files; null = the authorities of the system, and no certificate of our own. */
export type KafkaTls = { ca: string | null; cert: string | null; key: string | null };

/** Kafka as a destination of events. */
export type KafkaConfig = {
  brokers: readonly KafkaBroker[];
  clientId: string;
  tls: KafkaTls | null;
  sasl: KafkaSasl | null;
  topics: KafkaTopics;
  /** How an event is written: its attributes as headers, or the whole event as JSON. */
  format: 'binary' | 'structured';
  /** How long events that Kafka lacks are kept in Postgres. */
  keepMs: number;
};

export type KafkaTopics = {
  prefix: string;
  /** One topic for all events, or one for each family of events. */
  split: 'one' | 'family';
  /** Whether missing topics are created. */
  create: boolean;
  /** Of topics that are created. */
  partitions: number;
  /** Of topics that are created; null = the default of the brokers. */
  replication: number | null;
};

const DAY_MS = 86_400_000;
const DEFAULT_PORT = 9092;
const MECHANISMS = {
  plain: 'PLAIN',
  'scram-sha-256': 'SCRAM-SHA-256',
  'scram-sha-512': 'SCRAM-SHA-512',
} as const satisfies Record<string, KafkaSasl['mechanism']>;
type MechanismName = keyof typeof MECHANISMS;
const MECHANISM_NAMES = Object.keys(MECHANISMS) as [MechanismName, ...MechanismName[]];

const brokers = z.string().transform((value, context): KafkaBroker[] =>
  value.split(',').map((entry) => {
    const [, bracketed, name, port = String(DEFAULT_PORT)] =
      /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::(\d{1,5}))?$/i.exec(entry.trim()) ?? [];
    const host = bracketed ?? name;
    if (host === undefined || Number(port) < 1 || Number(port) > 65_535)
      context.addIssue({
        code: 'custom',
        message: `must be host[:port], comma-separated, IPv6 addresses in brackets; \`${entry.trim()}\` is none`,
      });
    return { host: host ?? '', port: Number(port) };
  }),
);

const flag = (fallback: '0' | '1') => z.enum(['0', '1']).default(fallback);
const path = z.string().min(1).optional();

/** The environment variables for Kafka. */
export const KAFKA_ENVIRONMENT = {
  KAFKA_BROKERS: brokers
    .optional()
    .describe(
      'brokers of a Kafka cluster that receives every event, comma-separated `host[:port]` (docs/kafka.md). Unset: no Kafka, and the other settings of Kafka are ignored',
    ),
  KAFKA_TOPIC_PREFIX: z
    .string()
    .regex(/^[a-zA-Z0-9._-]{1,200}$/, 'must have at most 200 letters, digits, dots, underscores and hyphens')
    .default('doorbuster')
    .describe('beginning of the names of topics'),
  KAFKA_TOPICS: z
    .enum(['one', 'family'])
    .default('one')
    .describe(
      '`one` = all events in the topic `<prefix>.events`; `family` = `<prefix>.redemption`, `<prefix>.payment`, `<prefix>.user`, `<prefix>.waiting` and `<prefix>.campaign`. Only events of one topic have an order',
    ),
  KAFKA_CREATE_TOPICS: flag('1').describe('`1` = missing topics are created; `0` = they must exist'),
  KAFKA_TOPIC_PARTITIONS: integer(1, 10_000).default(12).describe('partitions of a topic that is created'),
  KAFKA_TOPIC_REPLICATION: integer(1, 10)
    .optional()
    .describe(
      'replicas of a topic that is created. From 3 on, two of them must have an event before it counts as sent (`min.insync.replicas`). Unset: the default of the brokers',
    ),
  KAFKA_FORMAT: z
    .enum(['binary', 'structured'])
    .default('binary')
    .describe(
      'CloudEvents in Kafka: `binary` = attributes in `ce_` headers and the data as the value; `structured` = the whole event as the value, as webhooks have it',
    ),
  KAFKA_CLIENT_ID: z
    .string()
    .regex(/^[\x21-\x7e]{1,100}$/, 'must have at most 100 printable characters')
    .default('doorbuster')
    .describe('client id in the logs and quotas of the brokers'),
  KAFKA_TLS: flag('0').describe('`1` = connections to Kafka use TLS'),
  KAFKA_CA: path.describe('PEM file with the certificate authority of the brokers. Unset: the authorities of Node'),
  KAFKA_CERT: path.describe('PEM file with the certificate of this client, for brokers that require one'),
  KAFKA_KEY: path.describe('PEM file with the private key of KAFKA_CERT'),
  KAFKA_SASL: z.enum(MECHANISM_NAMES).optional().describe('how this client signs in to Kafka; unset = it does not'),
  KAFKA_USERNAME: z.string().min(1).optional().describe('user name for KAFKA_SASL'),
  KAFKA_PASSWORD: z.string().min(1).optional().describe('password for KAFKA_SASL'),
  KAFKA_KEEP_DAYS: integer(7, 3_650)
    .default(30)
    .describe(
      'how long events that Kafka has not received are kept in Postgres, days. Older ones are deleted, and Kafka never receives them',
    ),
};
export type KafkaEnvironment = z.infer<z.ZodObject<typeof KAFKA_ENVIRONMENT>>;

type Given = Record<string, string | undefined>;

/** Problems of settings of Kafka that do not fit together. */
export function kafkaProblems(given: Given): string[] {
  if (given.KAFKA_BROKERS === undefined) return [];
  const problems: string[] = [];
  for (const name of ['KAFKA_USERNAME', 'KAFKA_PASSWORD']) {
    if (given.KAFKA_SASL !== undefined && given[name] === undefined)
      problems.push(`${name} is missing: it is required with KAFKA_SASL`);
    if (given.KAFKA_SASL === undefined && given[name] !== undefined)
      problems.push(`KAFKA_SASL is missing: ${name} is used only with it`);
  }
  for (const name of ['KAFKA_CA', 'KAFKA_CERT', 'KAFKA_KEY']) {
    if (given[name] !== undefined && given.KAFKA_TLS !== '1')
      problems.push(`KAFKA_TLS is not 1: ${name} is used only with TLS`);
  }
  if ((given.KAFKA_CERT === undefined) !== (given.KAFKA_KEY === undefined))
    problems.push('KAFKA_CERT and KAFKA_KEY must both be set, or neither');
  return problems;
}

/** @returns null when no broker is configured */
export function kafkaOf(e: KafkaEnvironment): KafkaConfig | null {
  if (e.KAFKA_BROKERS === undefined) return null;
  return {
    brokers: e.KAFKA_BROKERS,
    clientId: e.KAFKA_CLIENT_ID,
    tls: e.KAFKA_TLS === '1' ? { ca: e.KAFKA_CA ?? null, cert: e.KAFKA_CERT ?? null, key: e.KAFKA_KEY ?? null } : null,
    sasl:
      e.KAFKA_SASL === undefined
        ? null
        : {
            mechanism: MECHANISMS[e.KAFKA_SASL],
            username: e.KAFKA_USERNAME ?? '',
            password: e.KAFKA_PASSWORD ?? '',
          },
    topics: {
      prefix: e.KAFKA_TOPIC_PREFIX,
      split: e.KAFKA_TOPICS,
      create: e.KAFKA_CREATE_TOPICS === '1',
      partitions: e.KAFKA_TOPIC_PARTITIONS,
      replication: e.KAFKA_TOPIC_REPLICATION ?? null,
    },
    format: e.KAFKA_FORMAT,
    keepMs: e.KAFKA_KEEP_DAYS * DAY_MS,
  };
}
