import { expect, test } from '@jest/globals';
import { keys } from '../../shared/redis/keys.js';
import { Operator, PaymentService, Shopper } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { startService, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';
import { readTopics, startBroker } from './broker.js';

const broker = await startBroker();
await broker.kill();
// Kafka is away when everything starts.
const service = await startService({ KAFKA_BROKERS: broker.brokers, EVENT_SOURCE: '/shop-7' });
const operator = new Operator(service.url);

const readiness = async () => {
  const answer = await fetch(`${service.url}/readyz`);
  const body = (await answer.json()) as { data: { checks: Record<string, { ok: boolean; detail: string }> } };
  return { status: answer.status, kafka: body.data.checks.kafka };
};
async function sell(product: string, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const answer = await new Shopper(service.url, product).checkout();
    expect(answer.status).toBe(200);
    await new PaymentService(service.url).confirm(answer.data.reservation_id, `pay-${answer.data.reservation_id}`);
    sold += 1;
  }
}
/** Ids of the events in the stream of Redis, in order. */
async function inStream(): Promise<string[]> {
  const entries = await service.redis.client.xrange(keys.events, '-', '+');
  return entries.map(([, fields]) => String(fields[fields.indexOf('id') + 1]));
}
let sold = 0;
const untilKafkaHasAll = () =>
  until('Kafka has an event for each payment, and no event waits', async () => {
    const { rows } = await service.database.client.query<{ paid: number; waiting: number }>(
      `select (count(*) filter (where type like '%.redeemed.v1'))::int as paid,
         (count(*) filter (where seq > (select last_seq from outbox_cursors where destination = 'kafka')))::int as waiting
       from outbox`,
    );
    return rows[0]?.paid === sold && rows[0].waiting === 0;
  });

test('while Kafka is away the sale, the stream and readiness do without it, and it gets everything afterwards', async () => {
  const product = await operator.openCampaign({ total_limit: 50, hold_seconds: 60 });
  await sell(product, 10);
  await until('the stream has the events', async () => (await inStream()).length >= 20);
  const away = await until('readiness reports Kafka', async () => {
    const now = await readiness();
    return now.kafka?.detail.startsWith('receives nothing since') && now;
  });
  expect(away).toMatchObject({ status: 200, kafka: { ok: false } });
  expect(away.kafka?.detail).not.toContain('127.0.0.1');
  expect(service.worker.log.join('\n')).toContain('events could not be sent to Kafka');
  await until('the metrics report it', async () => {
    const text = await metricsText(service.url);
    return (
      /^doorbuster_kafka_failures_total\{reason="connection"\} [1-9]/m.test(text) &&
      /^doorbuster_outbox_backlog_events\{destination="kafka"\} [1-9]/m.test(text)
    );
  });
  await broker.restart();
  await untilKafkaHasAll();
  const records = await readTopics(broker.brokers, ['doorbuster.events']);
  expect(new Set(records.map(({ headers }) => headers.ce_id))).toEqual(new Set(await inStream()));
  expect(records[0]?.headers.ce_source).toBe('/shop-7');
  await until('readiness reports it', async () => (await readiness()).kafka?.ok);
});

test('another worker continues when the one that sends is killed', async () => {
  const product = await operator.openCampaign({ total_limit: 50, hold_seconds: 60 });
  await sell(product, 5);
  await untilKafkaHasAll();
  await service.worker.kill();
  const next = await startWorkerProcess(service.env);
  await sell(product, 5);
  await untilKafkaHasAll();
  await until('the stream has them', async () => (await inStream()).length >= 2 * sold);
  const ids = (await readTopics(broker.brokers, ['doorbuster.events'])).map(({ headers }) => headers.ce_id);
  expect(new Set(ids)).toEqual(new Set(await inStream()));
  await next.stop();
  const { rows } = await service.database.client.query('select lease from outbox_cursors');
  expect(rows).toEqual([{ lease: null }]);
});
