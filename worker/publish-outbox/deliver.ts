import { randomUUID } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { cloudEvent, type OutboxEvent } from '../../shared/contracts/events.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type {
  RetryLimits,
  Stretch,
  WebhookEndpoint,
  WebhookEndpoints,
} from '../../shared/postgres/webhook-endpoints.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { Outbox } from './outbox.js';
import { EndpointConnection, type PostLimits } from './post.js';

const GONE = 410;

export type DeliverLimits = PostLimits & {
  webhookRetry: RetryLimits;
  webhookLeaseMs: number;
  webhookRunMs: number;
  webhookBatch: number;
};

export type DeliverDeps = {
  outbox: Outbox;
  endpoints: WebhookEndpoints;
  metrics: Metrics;
  log: Log;
  clock: Pick<RedisClock, 'nowMs'>;
  source: string;
  allowPrivate: boolean;
  limits: DeliverLimits;
};

/** One run of deliveries to one endpoint. */
type Run = DeliverDeps & { lease: string; connection: EndpointConnection };

/**
 * Sends one endpoint the events that it has not received, one after the other. Each is sent after the one before it was
 * delivered, so an endpoint that fails delays only its own events. The position of the endpoint moves after each
 * delivery. A crash in between delivers that one event again. The run ends when no event is left, at the first failure,
 * or when it has used its time.
 */
export async function deliverTo(endpointId: string, deps: DeliverDeps): Promise<void> {
  const { endpoints, limits } = deps;
  const lease = randomUUID();
  let endpoint = await endpoints.lease(endpointId, lease, limits.webhookLeaseMs);
  if (!endpoint) return;
  const connection = new EndpointConnection(deps.allowPrivate, limits);
  const run = { ...deps, lease, connection };
  const end = performance.now() + limits.webhookRunMs;
  try {
    while (endpoint && performance.now() < end) {
      const upTo = await deps.outbox.lastSeq();
      const stretch = await endpoints.nextStretch(endpoint, upTo);
      if (!stretch) return;
      endpoint = await deliverStretch(run, endpoint, stretch, end);
    }
  } finally {
    connection.close();
    await endpoints.release(endpointId, lease);
  }
}

/** @returns the endpoint if it may receive more, else null */
async function deliverStretch(
  run: Run,
  endpoint: WebhookEndpoint,
  stretch: Stretch,
  end: number,
): Promise<WebhookEndpoint | null> {
  const { outbox, endpoints, lease, limits } = run;
  const events = await outbox.read({ ...stretch, types: endpoint.types }, limits.webhookBatch);
  let current: WebhookEndpoint | null = endpoint;
  for (const event of events) {
    if (performance.now() >= end) return current;
    if (!(await deliver(run, current, event))) return null;
    current = await endpoints.advance(endpoint.id, lease, limits.webhookLeaseMs, stretch, event.seq, true);
    if (!current) return null;
  }
  if (events.length === limits.webhookBatch) return current;
  return endpoints.advance(endpoint.id, lease, limits.webhookLeaseMs, stretch, stretch.upTo, false);
}

/** @returns whether the event was delivered. If not, the failure has been recorded, or the endpoint disabled */
async function deliver(run: Run, endpoint: WebhookEndpoint, event: OutboxEvent): Promise<boolean> {
  const { endpoints, metrics, log, lease } = run;
  const body = cloudEvent(event, run.source);
  const about = { endpoint: endpoint.id, event: event.id };
  let error: string;
  try {
    const status = await run.connection.post(
      endpoint.url,
      signedHeaders(endpoint, event, body, new Date(run.clock.nowMs())),
      body,
    );
    if (status >= 200 && status < 300) {
      metrics.webhookDeliveries.inc({ outcome: 'delivered' });
      return true;
    }
    if (status === GONE) {
      await endpoints.disable(endpoint.id, lease, 'it responded with 410 Gone');
      metrics.webhookDeliveries.inc({ outcome: 'gone' });
      log.warn(about, 'a webhook endpoint responded with 410 and was disabled');
      return false;
    }
    error = `it responded with ${status}`;
  } catch (thrown) {
    error = thrown instanceof Error ? thrown.message : String(thrown);
  }
  const failure = await endpoints.fail(endpoint.id, lease, error, run.limits.webhookRetry);
  metrics.webhookDeliveries.inc({ outcome: failure && !failure.enabled ? 'given_up' : 'failed' });
  if (failure && !failure.enabled)
    log.error({ ...about, reason: error }, 'a webhook endpoint failed for too long and was disabled');
  else
    log.warn(
      { ...about, reason: error, attempts: failure?.attempts },
      'a webhook was not delivered; it will be retried',
    );
  return false;
}

/**
 * Headers by Standard Webhooks. Every secret of the endpoint signs, so a receiver may switch to a new secret at any
 * time.
 */
function signedHeaders(endpoint: WebhookEndpoint, event: OutboxEvent, body: string, now: Date): Record<string, string> {
  return {
    'content-type': 'application/cloudevents+json; charset=utf-8',
    'user-agent': 'doorbuster',
    'webhook-id': event.id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': endpoint.secrets.map((secret) => new Webhook(secret).sign(event.id, now, body)).join(' '),
    ...(event.trace ? { traceparent: event.trace } : {}),
  };
}
