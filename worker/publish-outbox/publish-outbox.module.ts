import { LIMITS } from '../../shared/config/limits.js';
import { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import type { Core } from '../core.js';
import { deliverTo } from './deliver.js';
import { EventPublisher } from './event-publisher.js';
import { Outbox } from './outbox.js';
import { pruneOutbox } from './publish.js';

export type Events = {
  publisher: EventPublisher;
  deliver: (endpointId: string) => Promise<void>;
  /** Deletes old events that have been delivered. */
  prune: () => Promise<void>;
};

/** Publishes committed events to the event stream and to webhooks. */
export function publishOutboxModule({ config, log, metrics, life, clock, database, filler, queues }: Core): Events {
  const outbox = new Outbox(database);
  const stream = new EventStream(filler.scripts, LIMITS.eventStreamLength);
  const deps = {
    outbox,
    endpoints: new WebhookEndpoints(database),
    metrics,
    source: config.eventSource,
    limits: LIMITS,
  };
  const publisher = new EventPublisher({
    ...deps,
    stream,
    wake: (endpointId, lastSeq) => queues.add('deliver', `${endpointId}-${lastSeq}`, { endpointId }),
  });
  life.add('event publisher', { stop: () => publisher.stop() });
  return {
    publisher,
    deliver: (endpointId) => deliverTo(endpointId, { ...deps, log, clock, allowPrivate: config.webhookAllowPrivate }),
    prune: () => pruneOutbox(outbox, stream, LIMITS),
  };
}
