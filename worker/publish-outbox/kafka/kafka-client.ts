import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import {
  Admin,
  type AdminOptions,
  ConfigResourceTypes,
  compatibilityPartitioner,
  Producer,
  stringSerializers,
} from '@platformatic/kafka';
import type { KafkaConfig, KafkaTls, KafkaTopics } from '../../../shared/config/kafka.js';
import type { Log } from '../../../shared/observability/log.js';
import { KafkaProblem, kafkaErrorId, kafkaErrorReason } from './kafka-errors.js';
import { type KafkaMessage, topicNames } from './kafka-message.js';

export type KafkaLimits = { connectMs: number; requestMs: number };

/** A connected producer. */
export type KafkaSender = {
  /** Sends records. All replicas that are in sync have them when it returns. @throws when any may be missing */
  send(messages: readonly KafkaMessage[]): Promise<void>;
  close(): void;
};

/** Connects to Kafka, and creates or checks the topics. @throws with a reason that an operator can act on */
export type OpenKafka = () => Promise<KafkaSender>;

/**
 * Connects to Kafka with an idempotent producer. The client repeats nothing: the caller repeats a batch, and it must be
 * the same batch, because the brokers recognize a repetition by its number and length alone.
 */
export async function openKafka(config: KafkaConfig, limits: KafkaLimits, log: Log): Promise<KafkaSender> {
  const options = await connectionOptions(config, limits);
  await prepareTopics(options, config.topics, log);
  const producer = new Producer<string, string, string, string>({
    ...options,
    idempotent: true,
    // Java's producers choose the same partition for a key.
    partitioner: compatibilityPartitioner,
    serializers: stringSerializers,
  });
  return {
    async send(messages) {
      await producer.send({ messages: [...messages] });
    },
    close: () => closeSoon(producer),
  };
}

async function connectionOptions(
  { brokers, clientId, tls, sasl }: KafkaConfig,
  { connectMs, requestMs }: KafkaLimits,
): Promise<AdminOptions> {
  return {
    clientId,
    bootstrapBrokers: brokers.map(({ host, port }) => ({ host, port })),
    connectTimeout: connectMs,
    // The first is the client's patience, the second that of the broker with its replicas.
    requestTimeout: requestMs,
    timeout: requestMs,
    retries: false,
    autocreateTopics: false,
    ...(tls ? { tls: await readTls(tls), tlsServerName: brokers.every(({ host }) => isIP(host) === 0) } : {}),
    ...(sasl ? { sasl: { ...sasl } } : {}),
  };
}

/** Reads the files at each connection, so that renewed certificates are used without a restart. */
async function readTls(files: KafkaTls): Promise<{ ca?: string; cert?: string; key?: string }> {
  const entries = Object.entries(files).filter((entry): entry is [string, string] => entry[1] !== null);
  const texts = entries.map(async ([name, path]) => {
    try {
      return [name, await readFile(path, 'utf8')];
    } catch (error) {
      throw new KafkaProblem(`KAFKA_${name.toUpperCase()} cannot be read: ${(error as Error).message}`);
    }
  });
  return Object.fromEntries(await Promise.all(texts));
}

/**
 * Creates missing topics, if that is configured, and checks those that exist.
 * @throws KafkaProblem when a topic is missing or would lose events
 */
async function prepareTopics(options: AdminOptions, topics: KafkaTopics, log: Log): Promise<void> {
  const admin = new Admin(options);
  try {
    const names = topicNames(topics);
    const existing = new Set(await admin.listTopics());
    const missing = names.filter((name) => !existing.has(name));
    if (missing.length > 0) await createTopics(admin, missing, topics, log);
    await requireRetention(
      admin,
      names.filter((name) => existing.has(name)),
    );
  } finally {
    closeSoon(admin);
  }
}

async function createTopics(admin: Admin, missing: string[], topics: KafkaTopics, log: Log): Promise<void> {
  const { create, partitions, replication } = topics;
  if (!create)
    throw new KafkaProblem(`the topic ${missing.join(', ')} does not exist. Create it, or set KAFKA_CREATE_TOPICS=1`);
  try {
    await admin.createTopics({
      topics: missing,
      partitions,
      ...(replication === null ? {} : { replicas: replication }),
      configs: replication !== null && replication > 2 ? [{ name: 'min.insync.replicas', value: '2' }] : [],
    });
    log.info({ topics: missing, partitions, replication }, 'Kafka topics created');
  } catch (error) {
    // Another worker was faster.
    if (kafkaErrorId(error) === 'TOPIC_ALREADY_EXISTS') return;
    throw new KafkaProblem(
      `the topic ${missing.join(', ')} could not be created: ${kafkaErrorReason(error)}. Create it, or allow this client to`,
    );
  }
}

/** A compacted topic keeps only the last event of each reservation. */
async function requireRetention(admin: Admin, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  const resources = names.map((resourceName) => ({
    resourceType: ConfigResourceTypes.TOPIC,
    resourceName,
    configurationKeys: ['cleanup.policy'],
  }));
  // A client needs no right to read settings in order to send.
  const found = await admin.describeConfigs({ resources }).catch((error: unknown) => {
    if (kafkaErrorId(error)?.endsWith('AUTHORIZATION_FAILED')) return [];
    throw error;
  });
  for (const { resourceName, configs } of found) {
    if (configs.some(({ name, value }) => name === 'cleanup.policy' && value?.includes('compact')))
      throw new KafkaProblem(
        `the topic ${resourceName} is compacted, which removes events. Set its cleanup.policy to delete`,
      );
  }
}

/** Closes without waiting: a connection to a broker that hangs may never close. */
function closeSoon(client: { close(): Promise<void> }): void {
  client.close().catch(() => {
    // Its connections end with the process at the latest.
  });
}
