import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { KafkaTopics } from '../../shared/config/kafka.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { OutboxCursors } from '../../shared/postgres/outbox-cursors.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import type { KafkaSender } from '../../worker/publish-outbox/kafka/kafka-client.js';
import { KafkaProblem } from '../../worker/publish-outbox/kafka/kafka-errors.js';
import { KafkaPublisher, type KafkaPublisherDeps } from '../../worker/publish-outbox/kafka/kafka-publisher.js';
import { Outbox } from '../../worker/publish-outbox/outbox.js';
import { pruneOutbox, sweepOutbox } from '../../worker/publish-outbox/publish.js';
import { startPersistence } from '../harness/persistence.js';
import { recordingLog } from '../harness/recording-log.js';
import { startSale } from '../harness/sale.js';
import { until } from '../harness/until.js';

/** The brokers are a double here: what they do wrong is the test. `npm run test:kafka` has real ones. */
const sale = await startSale();
const store = await startPersistence(sale);
const outbox = new Outbox(store.database);
const cursors = new OutboxCursors(store.database);
const TOPICS: KafkaTopics = { prefix: 'shop', split: 'one', create: true, partitions: 1, replication: null };

/** Answers each request for a batch; `producer` counts the producers that were opened. */
type Broker = (ids: readonly string[], producer: number) => Promise<void> | void;
type Sent = { producer: number; ids: string[] };

const running: KafkaPublisher[] = [];

function startPublisher(broker: Broker, changed: Partial<KafkaPublisherDeps['limits']> = {}, others = {}) {
  const sent: Sent[] = [];
  const opened = { count: 0, closed: 0 };
  const log = recordingLog();
  const metrics = new Metrics(false);
  const open = (): Promise<KafkaSender> => {
    opened.count += 1;
    const producer = opened.count;
    return Promise.resolve({
      async send(messages) {
        const ids = messages.map(({ headers }) => String(headers.ce_id));
        sent.push({ producer, ids });
        await broker(ids, producer);
      },
      close: () => (opened.closed += 1),
    });
  };
  const publisher = new KafkaPublisher({
    ...{ outbox, cursors, open, metrics, log, source: '/tests' },
    config: { topics: TOPICS, format: 'binary' },
    limits: {
      batch: 3,
      leaseMs: 60_000,
      retry: { firstDelayMs: 1, maxDelayMs: 5 },
      sendMs: 60_000,
      stopMs: 60_000,
      publishAfterMs: 1,
      publishEveryMs: 5,
      ...changed,
    },
    ...others,
  });
  publisher.start();
  running.push(publisher);
  return { publisher, sent, opened, log, metrics };
}

/** Makes `count` reservations. @returns ids of their events, in order */
async function happen(count: number): Promise<string[]> {
  const before = await outbox.lastSeq();
  const campaign = await store.openCampaign({ totalLimit: count });
  for (let i = 0; i < count; i += 1) await campaign.take(`user-${i}`);
  await store.persist();
  return (await outbox.read({ after: before, upTo: await outbox.lastSeq(), types: null }, 1_000)).map(({ id }) => id);
}
const cursor = async () => (await cursors.find('kafka'))?.lastSeq;
const untilSent = () => until('Kafka has everything', async () => (await cursor()) === (await outbox.lastSeq()));
const failure = (apiId: string) => Object.assign(new Error(`the broker replied ${apiId}`), { apiId });

beforeEach(async () => {
  await store.persist();
  await store.sql.query('delete from outbox_cursors');
  await store.sql.query('delete from outbox');
});
afterEach(async () => {
  for (const publisher of running.splice(0)) await publisher.stop();
});

describe('KafkaPublisher', () => {
  it('sends what is in the outbox before its first start, in order, and then what follows', async () => {
    const before = await happen(4);
    const { publisher, sent, opened } = startPublisher(() => {}, { publishEveryMs: 3_600_000 });
    await untilSent();
    const after = await happen(2);
    publisher.notify();
    await untilSent();
    expect(sent.flatMap(({ ids }) => ids)).toEqual([...before, ...after]);
    expect(sent[0]?.ids.length).toBe(3);
    expect(opened.count).toBe(1);
  });

  it('repeats a failed batch as it is although more events came, and on a new producer after three failures', async () => {
    const ids = await happen(2);
    let more: string[] = [];
    let failures = 0;
    const { sent, opened, metrics } = startPublisher(async () => {
      if (failures === 4) return;
      failures += 1;
      if (failures === 1) more = await happen(2);
      throw new Error('no broker');
    });
    await untilSent();
    expect(sent.slice(0, 5)).toEqual([1, 1, 1, 2, 2].map((producer) => ({ producer, ids })));
    expect(sent.slice(5).flatMap((batch) => batch.ids)).toEqual(more);
    expect(opened).toEqual({ count: 2, closed: 1 });
    expect(await metrics.registry.getSingleMetricAsString('doorbuster_kafka_failures_total')).toContain(
      'reason="connection"} 4',
    );
    expect(await cursors.find('kafka')).toMatchObject({ attempts: 0, failingSince: null, lastError: null });
  });

  it('records a failure with its reason, and reports a wrong setting as an error', async () => {
    await happen(1);
    const open = () => Promise.reject(new KafkaProblem('the topic shop.events does not exist'));
    const { log } = startPublisher(() => {}, {}, { open });
    const failing = await until('the failure is recorded', async () => {
      const found = await cursors.find('kafka');
      return found?.lastError ? found : null;
    });
    expect(failing).toMatchObject({ lastError: 'the topic shop.events does not exist', lastSentAt: null });
    expect(failing.failingSince).toBeInstanceOf(Date);
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        level: 'error',
        fields: { reason: 'the topic shop.events does not exist', attempts: 1 },
      }),
    );
  });

  it('connects before there are events, and notices that a failure is over without one', async () => {
    let failures = 2;
    const sender: KafkaSender = { send: () => Promise.resolve(), close: () => {} };
    const open = () => {
      failures -= 1;
      return failures < 0 ? Promise.resolve(sender) : Promise.reject(new Error('away'));
    };
    const { log } = startPublisher(() => {}, {}, { open });
    await until('it has recovered', () => log.lines.some(({ message }) => message === 'Kafka receives events again'));
    await until('that is recorded', async () => (await cursors.find('kafka'))?.failingSince === null);
    expect(await cursors.find('kafka')).toMatchObject({ attempts: 0, lastError: null });
  });

  it('halves a batch that is too large, on a new producer, and skips nothing', async () => {
    const ids = await happen(3);
    const { sent } = startPublisher((batch) => {
      if (batch.length > 1) throw failure('MESSAGE_TOO_LARGE');
    });
    await untilSent();
    const [a, b, c] = ids as [string, string, string];
    expect(sent.map((one) => one.ids)).toEqual([ids, [a, b], [a], [b], [c]]);
    expect(new Set(sent.map(({ producer }) => producer)).size).toBe(3);
  });

  it('does not send a batch again when only its position could not be moved', async () => {
    const ids = await happen(2);
    let failures = 2;
    class LateCursors extends OutboxCursors {
      override advance(...args: Parameters<OutboxCursors['advance']>) {
        failures -= 1;
        return failures >= 0 ? Promise.reject(new Error('Postgres is away')) : super.advance(...args);
      }
    }
    const { sent } = startPublisher(() => {}, {}, { cursors: new LateCursors(store.database) });
    await untilSent();
    expect(sent.map((one) => one.ids)).toEqual([ids]);
  });

  it('leaves sending to the worker with the lease, and another continues after its stop', async () => {
    const first = startPublisher(() => {}, { leaseMs: 3_600_000 });
    const before = await happen(2);
    await untilSent();
    const second = startPublisher(() => {}, { leaseMs: 25 });
    const more = await happen(2);
    await untilSent();
    expect(second.opened.count).toBe(0);
    await first.publisher.stop();
    const after = await happen(2);
    await untilSent();
    expect(first.sent.flatMap(({ ids }) => ids)).toEqual([...before, ...more]);
    expect(second.sent.flatMap(({ ids }) => ids)).toEqual(after);
  });

  it('follows an operator who moves the position back, and forward over a batch that fails', async () => {
    const ids = await happen(2);
    let isRejected = false;
    const { sent, publisher } = startPublisher(() => {
      if (isRejected) throw failure('INVALID_RECORD');
    });
    await untilSent();
    await store.sql.query('update outbox_cursors set last_seq = 0');
    const more = await happen(1);
    publisher.notify();
    await untilSent();
    // The lost position is noticed with the next batch, which is then sent again.
    expect(sent.slice(2).flatMap((one) => one.ids)).toEqual([...ids, ...more]);
    isRejected = true;
    await happen(1);
    publisher.notify();
    await until('it fails', async () => (await cursors.find('kafka'))?.lastError?.includes('INVALID_RECORD'));
    await store.sql.query('update outbox_cursors set last_seq = (select max(seq) from outbox)');
    isRejected = false;
    const [last] = await happen(1);
    await untilSent();
    expect(sent.at(-1)?.ids).toEqual([last]);
  });

  it('gives up a producer that does not reply', async () => {
    const ids = await happen(1);
    const { sent, opened } = startPublisher(
      (_, producer) => (producer === 1 ? new Promise<void>(() => {}) : undefined),
      { sendMs: 250 },
    );
    await untilSent();
    expect(sent).toEqual([1, 2].map((producer) => ({ producer, ids })));
    expect(opened.closed).toBe(1);
  });

  it('stops while Kafka does not reply', async () => {
    await happen(1);
    const { publisher, sent, opened } = startPublisher(() => new Promise(() => {}), { stopMs: 5 });
    await until('it sends', () => sent.length > 0);
    await publisher.stop();
    expect(opened.closed).toBe(1);
    const { rows } = await store.sql.query('select lease from outbox_cursors');
    expect(rows).toEqual([{ lease: null }]);
  });
});

describe('the outbox', () => {
  const limits = { outboxKeepMs: 7 * 86_400_000, pruneBatch: 100, pruneBatches: 2 };
  const keepMs = 30 * 86_400_000;
  const prune = async (kafka: { keepMs: number } | null) => {
    const [log, metrics] = [recordingLog(), new Metrics(false)];
    const stream = Object.assign(Object.create(EventStream.prototype), { lastSeq: () => outbox.lastSeq() });
    await pruneOutbox({ outbox, stream, kafka, metrics, log, limits });
    const { rows } = await store.sql.query<{ n: number }>('select count(*)::int as n from outbox');
    return { left: rows[0]?.n, log, metrics };
  };
  const age = (days: number) =>
    store.sql.query(`update outbox set occurred_at = now() - make_interval(days => $1)`, [days]);

  it('keeps old events that Kafka lacks, and deletes those that it has', async () => {
    await happen(3);
    await age(8);
    expect((await prune({ keepMs })).left).toBe(3);
    await store.sql.query(
      `insert into outbox_cursors (destination, last_seq) select 'kafka', min(seq) + 1 from outbox`,
    );
    const { left, log } = await prune({ keepMs });
    expect([left, log.lines]).toEqual([1, []]);
    expect((await prune(null)).left).toBe(0);
  });

  it('deletes events that Kafka lacks after the limit, and counts and reports them', async () => {
    await happen(3);
    await age(31);
    await store.sql.query(`insert into outbox_cursors (destination, last_seq) select 'kafka', min(seq) from outbox`);
    const { left, log, metrics } = await prune({ keepMs });
    expect(left).toBe(0);
    expect(log.lines).toEqual([expect.objectContaining({ level: 'error', fields: { events: 2 } })]);
    expect(await metrics.registry.getSingleMetricAsString('doorbuster_kafka_skipped_events_total')).toContain(' 2');
    expect(await cursors.find('kafka')).toMatchObject({ skipped: 2 });
  });

  it('has a lag and a backlog for Kafka', async () => {
    await happen(3);
    await age(1);
    await store.sql.query(`insert into outbox_cursors (destination, last_seq) select 'kafka', min(seq) from outbox`);
    const metrics = new Metrics(false);
    await sweepOutbox({
      ...{ outbox, metrics, log: store.log, source: '/tests', limits: { publishBatch: 100 } },
      stream: new EventStream(sale.store.scripts, 1_000),
      endpoints: Object.assign(Object.create(null), { list: () => Promise.resolve([]) }),
      kafka: cursors,
      wake: () => Promise.resolve(),
    });
    const sample = async (name: string) => metrics.registry.getSingleMetricAsString(name);
    expect(await sample('doorbuster_outbox_backlog_events')).toContain('{destination="kafka"} 2');
    const lag = /destination="kafka"\} (\S+)/.exec(await sample('doorbuster_outbox_lag_seconds'))?.[1];
    expect(Number(lag)).toBeGreaterThanOrEqual(86_400);
  });
});
