import { describe, expect, it } from '@jest/globals';
import { ConfigError, readConfig } from './config.js';

const GIVEN = { REDIS_URL: 'redis://127.0.0.1:6379', DATABASE_URL: 'postgres://127.0.0.1/db' };
const kafkaOf = (env: NodeJS.ProcessEnv) => readConfig({ ...GIVEN, ...env }).kafka;

function problemsOf(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    kafkaOf(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe('the settings of Kafka', () => {
  it('have no effect without brokers', () => {
    expect(kafkaOf({ KAFKA_TOPIC_PREFIX: 'shop', KAFKA_USERNAME: 'ann' })).toBeNull();
  });

  it('have defaults', () => {
    expect(kafkaOf({ KAFKA_BROKERS: 'k1.example, k2.example:9093,[::1]:9094' })).toEqual({
      brokers: [
        { host: 'k1.example', port: 9_092 },
        { host: 'k2.example', port: 9_093 },
        { host: '::1', port: 9_094 },
      ],
      clientId: 'doorbuster',
      tls: null,
      sasl: null,
      topics: { prefix: 'doorbuster', split: 'one', create: true, partitions: 12, replication: null },
      format: 'binary',
      keepMs: 30 * 86_400_000,
    });
  });

  it('contain TLS, the sign-in and the topics', () => {
    expect(
      kafkaOf({
        KAFKA_BROKERS: 'k1.example',
        KAFKA_TLS: '1',
        KAFKA_CA: '/etc/ca.pem',
        KAFKA_SASL: 'scram-sha-512',
        KAFKA_USERNAME: 'ann',
        KAFKA_PASSWORD: 'secret',
        KAFKA_TOPIC_PREFIX: 'shop.eu',
        KAFKA_TOPICS: 'family',
        KAFKA_CREATE_TOPICS: '0',
        KAFKA_TOPIC_PARTITIONS: '48',
        KAFKA_TOPIC_REPLICATION: '3',
        KAFKA_FORMAT: 'structured',
        KAFKA_KEEP_DAYS: '7',
      }),
    ).toMatchObject({
      tls: { ca: '/etc/ca.pem', cert: null, key: null },
      sasl: { mechanism: 'SCRAM-SHA-512', username: 'ann', password: 'secret' },
      topics: { prefix: 'shop.eu', split: 'family', create: false, partitions: 48, replication: 3 },
      format: 'structured',
      keepMs: 7 * 86_400_000,
    });
  });

  it('are rejected where they do not fit together, and the password is not repeated', () => {
    const problems = problemsOf({
      KAFKA_BROKERS: 'k1.example',
      KAFKA_USERNAME: 'ann',
      KAFKA_PASSWORD: 'very-secret',
      KAFKA_CERT: '/etc/cert.pem',
    });
    expect(problems).toEqual([
      'KAFKA_SASL is missing: KAFKA_USERNAME is used only with it',
      'KAFKA_SASL is missing: KAFKA_PASSWORD is used only with it',
      'KAFKA_TLS is not 1: KAFKA_CERT is used only with TLS',
      'KAFKA_CERT and KAFKA_KEY must both be set, or neither',
    ]);
    expect(problemsOf({ KAFKA_BROKERS: 'k1', KAFKA_SASL: 'plain', KAFKA_USERNAME: 'ann' })).toEqual([
      'KAFKA_PASSWORD is missing: it is required with KAFKA_SASL',
    ]);
  });

  for (const wrong of ['http://k1:9092', 'k1:', 'k1:0', 'k1:99999', 'k1,,k2', '::1', 'a b'])
    it(`reject the broker ${wrong}`, () => {
      expect(problemsOf({ KAFKA_BROKERS: wrong })).toEqual([expect.stringContaining('must be host[:port]')]);
    });
});
