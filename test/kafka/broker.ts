import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Consumer, stringDeserializers } from '@platformatic/kafka';
import type { KafkaOptions, RunningKafka } from '../../scripts/engines/engine.js';
import { startKafka } from '../../scripts/engines/kafka.mjs';
import { readConfig } from '../../shared/config/config.js';
import type { KafkaConfig } from '../../shared/config/kafka.js';
import { atEnd } from '../harness/cleanup.js';
import { freePort } from '../harness/free-port.js';

const STORE_PASSWORD = 'of-the-tests';
const runCommand = promisify(execFile);

export type TestBroker = {
  brokers: string;
  /** kill -9 and wait. */
  kill(): Promise<void>;
  /** Starts it again on its port and its data. */
  restart(): Promise<void>;
};

export type KafkaRecord = {
  topic: string;
  partition: number;
  key: string;
  value: string;
  headers: Record<string, string>;
  timestamp: bigint;
};

/** A broker of its own for a test file, on the loopback. */
export async function startBroker(options: Partial<KafkaOptions> = {}): Promise<TestBroker> {
  const dataDir = await mkdtemp(join(tmpdir(), 'doorbuster-kafka-'));
  const fixed = { libraries: String(process.env.DOORBUSTER_TEST_KAFKA), dataDir, ...options };
  const [port, controllerPort] = [await freePort(), await freePort()];
  let engine: RunningKafka = await startKafka({ ...fixed, port, controllerPort });
  const { brokers } = engine;
  atEnd('Kafka', async () => {
    engine.kill('SIGKILL');
    await engine.exited;
    await rm(dataDir, { recursive: true, force: true });
  });
  return {
    brokers,
    async kill() {
      engine.kill('SIGKILL');
      await engine.exited;
    },
    async restart() {
      engine = await startKafka({ ...fixed, port, controllerPort });
    },
  };
}

/** A certificate for 127.0.0.1 in the stores of a broker, and as PEM for clients. Made with the tool of Java. */
export async function makeStores(): Promise<{
  keystore: string;
  truststore: string;
  storePassword: string;
  ca: string;
}> {
  const directory = await mkdtemp(join(tmpdir(), 'doorbuster-stores-'));
  atEnd('the stores', () => rm(directory, { recursive: true, force: true }));
  const [keystore, truststore, ca] = ['key.p12', 'trust.p12', 'ca.pem'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  const keytool = (...args: string[]) => runCommand('keytool', [...args, '-storepass', STORE_PASSWORD]);
  const pair = ['-genkeypair', '-alias', 'broker', '-keyalg', 'RSA', '-keysize', '2048', '-validity', '2'];
  const name = ['-dname', 'CN=localhost', '-ext', 'san=ip:127.0.0.1,dns:localhost'];
  await keytool(...pair, ...name, '-storetype', 'PKCS12', '-keystore', keystore);
  await keytool('-exportcert', '-rfc', '-alias', 'broker', '-keystore', keystore, '-file', ca);
  await keytool(
    '-importcert',
    '-noprompt',
    '-alias',
    'ca',
    '-file',
    ca,
    '-storetype',
    'PKCS12',
    '-keystore',
    truststore,
  );
  return { keystore, truststore, storePassword: STORE_PASSWORD, ca };
}

/** The configuration that these variables make. */
export function configOf(env: NodeJS.ProcessEnv): KafkaConfig {
  const engines = { REDIS_URL: 'redis://127.0.0.1', DATABASE_URL: 'postgres://127.0.0.1/db' };
  const { kafka } = readConfig({ ...engines, ...env });
  if (!kafka) throw new Error('KAFKA_BROKERS is missing');
  return kafka;
}

/** Reads everything that the topics have now, in the order of each partition. */
export async function readTopics(brokers: string, topics: string[]): Promise<KafkaRecord[]> {
  const consumer = new Consumer({
    clientId: 'tests',
    groupId: `tests-${randomUUID()}`,
    bootstrapBrokers: [brokers],
    deserializers: stringDeserializers,
  });
  const records: KafkaRecord[] = [];
  try {
    const ends = await consumer.listOffsets({ topics });
    const left = new Map<string, bigint>();
    for (const [topic, offsets] of ends)
      for (const [partition, end] of offsets.entries()) if (end > 0n) left.set(`${topic} ${partition}`, end);
    if (left.size === 0) return [];
    const stream = await consumer.consume({ topics, mode: 'earliest', autocommit: false });
    for await (const { topic, partition, offset, key, value, headers, timestamp } of stream) {
      records.push({ topic, partition, key, value, headers: Object.fromEntries(headers), timestamp });
      const place = `${topic} ${partition}`;
      if (offset + 1n >= (left.get(place) ?? 0n)) left.delete(place);
      if (left.size === 0) break;
    }
  } finally {
    await consumer.close(true);
  }
  return records;
}
