import { afterEach, expect, test } from '@jest/globals';
import { Admin } from '@platformatic/kafka';
import { LIMITS } from '../../shared/config/limits.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { OutboxCursors } from '../../shared/postgres/outbox-cursors.js';
import { openKafka } from '../../worker/publish-outbox/kafka/kafka-client.js';
import { KafkaPublisher } from '../../worker/publish-outbox/kafka/kafka-publisher.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import { atEnd } from '../harness/cleanup.js';
import { startPersistence } from '../harness/persistence.js';
import { recordingLog } from '../harness/recording-log.js';
import { startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';
import { configOf, makeStores, readTopics, startBroker } from './broker.js';

const sale = await startSale();
const store = await startPersistence(sale);
const outbox = new Outbox(store.database);
const cursors = new OutboxCursors(store.database);
const broker = await startBroker();
const admin = new Admin({ clientId: 'tests', bootstrapBrokers: [broker.brokers] });
atEnd('the client of Kafka', () => admin.close());

const running: KafkaPublisher[] = [];
let prefixes = 0;

/** A publisher as the worker has it, to topics of its own, from the events of now on. */
async function startPublisher(env: NodeJS.ProcessEnv = {}) {
  prefixes += 1;
  const prefix = `test${prefixes}`;
  const config = configOf({ KAFKA_BROKERS: broker.brokers, KAFKA_TOPIC_PREFIX: prefix, ...env });
  const [log, metrics] = [recordingLog(), new Metrics(false)];
  await store.persist();
  await store.sql.query('delete from outbox_cursors');
  await store.sql.query('delete from outbox');
  const publisher = new KafkaPublisher({
    ...{
      outbox,
      cursors,
      metrics,
      log,
      config,
      source: '/tests',
      limits: { ...LIMITS.events, ...LIMITS.kafka, batch: 20 },
    },
    open: () => openKafka(config, LIMITS.kafka, log),
  });
  publisher.start();
  running.push(publisher);
  return { publisher, prefix, log, metrics };
}
afterEach(async () => {
  for (const publisher of running.splice(0)) await publisher.stop();
  await sale.expectConsistent();
});

const eventsNow = () => outbox.read({ after: 0, upTo: Number.MAX_SAFE_INTEGER, types: null }, 1_000_000);
const untilSent = () =>
  until('Kafka has everything', async () => (await cursors.find('kafka'))?.lastSeq === (await outbox.lastSeq()));
const untilFailed = (reason: string) =>
  until(`it fails: ${reason}`, async () => (await cursors.find('kafka'))?.lastError?.includes(reason));

test('events arrive with their key and headers in a topic that was created', async () => {
  const { prefix } = await startPublisher({ KAFKA_TOPIC_PARTITIONS: '3' });
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann', { trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' });
  await campaign.confirm(id);
  await campaign.setStatus('pause');
  await store.persist();
  await untilSent();
  const records = await readTopics(broker.brokers, [`${prefix}.events`]);
  const expected = (await eventsNow()).map(({ id: eventId, type, subject, occurredAt, trace, data }) => ({
    topic: `${prefix}.events`,
    partition: expect.any(Number),
    key: type.includes('.campaign.') ? campaign.terms.id : subject,
    value: JSON.stringify(data),
    timestamp: BigInt(occurredAt.getTime()),
    headers: {
      'content-type': 'application/json',
      ce_specversion: '1.0',
      ce_id: eventId,
      ce_source: '/tests',
      ce_type: type,
      ce_subject: subject,
      ce_time: occurredAt.toISOString(),
      ce_partitionkey: type.includes('.campaign.') ? campaign.terms.id : subject,
      ...(trace ? { ce_traceparent: trace } : {}),
    },
  }));
  expect(expected.length).toBeGreaterThanOrEqual(3);
  expect(records.length).toBe(expected.length);
  expect(records).toEqual(expect.arrayContaining(expected));
  const partitions = new Set(records.filter(({ key }) => key === id).map(({ partition }) => partition));
  expect(partitions.size).toBe(1);
  const { topics } = await admin.metadata({ topics: [`${prefix}.events`] });
  expect(topics.get(`${prefix}.events`)?.partitionsCount).toBe(3);
});

test('structured events go to the topic of their family', async () => {
  const { prefix } = await startPublisher({ KAFKA_TOPICS: 'family', KAFKA_FORMAT: 'structured' });
  const campaign = await store.openCampaign();
  const id = await campaign.take('ann');
  await campaign.setStatus('pause');
  await store.persist();
  await untilSent();
  const [reserved] = await readTopics(broker.brokers, [`${prefix}.redemption`]);
  expect(reserved?.headers).toEqual({ 'content-type': 'application/cloudevents+json; charset=UTF-8' });
  expect(JSON.parse(String(reserved?.value))).toMatchObject({
    specversion: '1.0',
    subject: id,
    data: { user_id: 'ann' },
  });
  const about = await readTopics(broker.brokers, [`${prefix}.campaign`]);
  expect(about.map(({ key }) => key)).toContain(campaign.terms.id);
});

test('a broker that is killed and started again under load has every event, in order for each key', async () => {
  const { prefix, metrics } = await startPublisher();
  const campaign = await store.openCampaign({ totalLimit: 1_000_000 });
  let isOver = false;
  let taken = 0;
  const selling = (async () => {
    while (!isOver) {
      const id = await campaign.take(`user-${taken}`);
      await campaign.confirm(id);
      taken += 1;
      if (taken % 10 === 0) await store.persist();
    }
    await store.persist();
  })();
  for (let round = 0; round < 2; round += 1) {
    const before = (await cursors.find('kafka'))?.lastSeq ?? 0;
    await until('events flow', async () => ((await cursors.find('kafka'))?.lastSeq ?? 0) > before + 100);
    await broker.kill();
    const soldBefore = taken;
    await until('it fails, and the sale goes on', async () => {
      return taken > soldBefore + 50 && (await cursors.find('kafka'))?.failingSince;
    });
    await broker.restart();
    await until('Kafka receives events again', async () => (await cursors.find('kafka'))?.failingSince === null);
  }
  isOver = true;
  await selling;
  await untilSent();
  const records = await readTopics(broker.brokers, [`${prefix}.events`]);
  const byKey = new Map<string, string[]>();
  for (const { key, headers } of records) {
    const ids = byKey.get(key) ?? [];
    // A repetition has the id of an event that came before.
    if (!ids.includes(String(headers.ce_id))) ids.push(String(headers.ce_id));
    byKey.set(key, ids);
  }
  const expected = new Map<string, string[]>();
  for (const { id, type, subject, data } of await eventsNow()) {
    const key = type.includes('.campaign.') ? String(data.campaign_id) : subject;
    expected.set(key, [...(expected.get(key) ?? []), id]);
  }
  expect(expected.size).toBeGreaterThan(400);
  expect(byKey).toEqual(expected);
  expect(await metrics.registry.getSingleMetricAsString('doorbuster_kafka_failures_total')).toContain('reason=');
});

test('a missing topic is an error with a remedy until it is created', async () => {
  const { prefix, log } = await startPublisher({ KAFKA_CREATE_TOPICS: '0' });
  await untilFailed(`the topic ${prefix}.events does not exist. Create it, or set KAFKA_CREATE_TOPICS=1`);
  expect(log.lines).toContainEqual(expect.objectContaining({ level: 'error' }));
  await admin.createTopics({ topics: [`${prefix}.events`], partitions: 1, replicas: 1 });
  await untilSent();
});

test('a compacted topic receives nothing, because it would lose events', async () => {
  const topic = `test${prefixes + 1}.events`;
  const configs = [{ name: 'cleanup.policy', value: 'compact' }];
  await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1, configs });
  await startPublisher();
  await untilFailed(`the topic ${topic} is compacted`);
  expect(await readTopics(broker.brokers, [topic])).toEqual([]);
});

test('a batch that the topic does not take whole is sent in parts', async () => {
  const topic = `test${prefixes + 1}.events`;
  const configs = [{ name: 'max.message.bytes', value: '3000' }];
  await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1, configs });
  const campaign = await store.openCampaign({ totalLimit: 100 });
  await startPublisher();
  for (let i = 0; i < 30; i += 1) await campaign.take(`user-${i}`);
  await store.persist();
  await untilSent();
  const ids = (await readTopics(broker.brokers, [topic])).map(({ headers }) => headers.ce_id);
  expect(ids).toEqual((await eventsNow()).map(({ id }) => id));
});

test('a topic that is deleted is created again', async () => {
  const { prefix } = await startPublisher();
  const campaign = await store.openCampaign();
  await campaign.take('ann');
  await store.persist();
  await untilSent();
  await admin.deleteTopics({ topics: [`${prefix}.events`] });
  await campaign.take('bob');
  await store.persist();
  await untilSent();
});

test('TLS and SCRAM are used, and a wrong password or authority is named', async () => {
  const stores = await makeStores();
  const user = { mechanism: 'SCRAM-SHA-512', username: 'ann', password: 'of-ann' } as const;
  const secured = await startBroker({ sasl: { ...user, ...stores } });
  const env = {
    KAFKA_BROKERS: secured.brokers,
    KAFKA_TLS: '1',
    KAFKA_CA: stores.ca,
    KAFKA_SASL: 'scram-sha-512',
    KAFKA_USERNAME: 'ann',
    KAFKA_PASSWORD: 'of-ann',
  };
  const stop = async () => running.splice(0)[0]?.stop();
  await startPublisher(env);
  const campaign = await store.openCampaign();
  await campaign.take('ann');
  await store.persist();
  await untilSent();
  await stop();
  await startPublisher({ ...env, KAFKA_PASSWORD: 'wrong' });
  await untilFailed('uthentication');
  expect((await cursors.find('kafka'))?.lastError).not.toContain('wrong');
  await stop();
  await startPublisher({ ...env, KAFKA_CA: '' });
  await untilFailed('self-signed certificate');
  await stop();
  await startPublisher({ ...env, KAFKA_CA: '/nowhere/ca.pem' });
  await untilFailed('KAFKA_CA cannot be read');
});

test('a broker that is nowhere does not hold up the stop', async () => {
  await startPublisher({ KAFKA_BROKERS: '127.0.0.1:1' });
  await untilFailed('ECONNREFUSED');
});
