import { LIMITS } from '../../shared/config/limits.js';
import { OutboxCursors } from '../../shared/postgres/outbox-cursors.js';
import { WebhookAttempts } from '../../shared/postgres/webhook-attempts.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { WebhookParking } from '../../shared/postgres/webhook-parking.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import type { Core } from '../core.js';
import { deliverTo } from './deliver.js';
import { EventPublisher } from './event-publisher.js';
import { KafkaPublisher } from './kafka/kafka-publisher.js';
import { Outbox } from './outbox.js';
import { pruneOutbox } from './publish.js';

export type Events = {
  publisher: EventPublisher;
  deliver: (endpointId: string) => Promise<void>;
  /** Deletes old events that have been delivered, and old records of deliveries. */
  prune: () => Promise<void>;
};

/** Publishes committed events to the event stream, to webhooks and to Kafka. */
export function publishOutboxModule(core: Core): Events {
  const { config, log, metrics, tracing, life, clock, database, shards, queues } = core;
  const outbox = new Outbox(database);
  const stream = new EventStream(shards.home.filler.scripts, LIMITS.events.streamLength);
  const cursors = new OutboxCursors(database);
  const deps = {
    outbox,
    endpoints: new WebhookEndpoints(database),
    metrics,
    log,
    tracing,
    source: config.eventSource,
    limits: { ...LIMITS.webhooks, ...LIMITS.events },
  };
  // Prometheus sees an increase only in a series that it has seen before.
  for (const outcome of ['given_up', 'gone']) metrics.webhookDeliveries.inc({ outcome }, 0);
  const publisher = new EventPublisher({
    ...deps,
    stream,
    ...(config.kafka ? { kafka: cursors } : {}),
    wake: (endpointId) => queues.add('deliver', { endpointId }),
  });
  life.add('event publisher', { stop: () => publisher.stop() });
  addKafka(core, outbox, cursors);
  const deliveries = {
    parking: new WebhookParking(database),
    attempts: new WebhookAttempts(database),
    allowPrivate: config.webhookAllowPrivate,
  };
  return {
    publisher,
    async deliver(endpointId) {
      const hasMore = await deliverTo(endpointId, { ...deps, ...deliveries, clock });
      if (hasMore) await queues.add('deliver', { endpointId });
    },
    prune: async () => {
      await pruneOutbox({
        outbox,
        stream,
        kafka: config.kafka,
        metrics,
        log,
        limits: { ...LIMITS.events, ...LIMITS.retention },
      });
      await deliveries.parking.forgetPruned();
      await deliveries.attempts.prune(LIMITS.webhooks.attemptsKept);
    },
  };
}

/** Sends to Kafka beside the other destinations. Neither the start nor the sale waits for it. */
function addKafka({ config, log, metrics, tracing, life, shards }: Core, outbox: Outbox, cursors: OutboxCursors): void {
  const { kafka } = config;
  if (!kafka) return;
  const publisher = new KafkaPublisher({
    ...{ outbox, cursors, metrics, tracing, log, config: kafka, source: config.eventSource },
    limits: { ...LIMITS.events, ...LIMITS.kafka },
    // Loaded on use, because most installations have no Kafka.
    open: async () => (await import('./kafka/kafka-client.js')).openKafka(kafka, LIMITS.kafka, log),
  });
  for (const { commits } of shards.all) commits.onCommit(() => publisher.notify());
  life.add('Kafka publisher', { start: () => publisher.start(), stop: () => publisher.stop() });
}
