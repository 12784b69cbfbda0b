import { randomUUID } from 'node:crypto';
import { cloudEvent, type OutboxEvent } from '../../shared/contracts/events.js';
import type { PostResult } from '../../shared/contracts/post-result.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Tracing } from '../../shared/observability/tracing.js';
import type { WebhookAttempts } from '../../shared/postgres/webhook-attempts.js';
import type {
  RetryLimits,
  Stretch,
  WebhookEndpoint,
  WebhookEndpoints,
} from '../../shared/postgres/webhook-endpoints.js';
import type { ParkedHead, WebhookParking } from '../../shared/postgres/webhook-parking.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import { EndpointConnection, type PostLimits } from '../../shared/webhooks/endpoint-connection.js';
import { sendEvent } from '../../shared/webhooks/send-event.js';
import type { Outbox } from './outbox.js';
import { endOfPost, startPost } from './trace-sent.js';

const GONE = 410;
/**
 * Responses about the endpoint, not about one event, as redirects are: missing or wrong credentials, a wrong URL, too
 * many requests, bad gateway, unavailable, gateway timeout.
 */
const OF_ENDPOINT = [401, 403, 404, 405, 429, 502, 503, 504];
/** If one event gets such a response or none as often as this, it is parked, and another event is tried. */
const ATTEMPTS_OF_ENDPOINT = 3;
/** If events of as many subjects fail in a row, the failure is the endpoint's own. */
const SUBJECTS_IN_A_ROW = 3;

export type DeliverLimits = PostLimits & {
  retry: RetryLimits;
  leaseMs: number;
  runMs: number;
  batch: number;
  parkedEvents: number;
};

export type DeliverDeps = {
  outbox: Outbox;
  endpoints: WebhookEndpoints;
  parking: WebhookParking;
  attempts: WebhookAttempts;
  metrics: Metrics;
  /** null = no spans are recorded */
  tracing?: Tracing | null;
  log: Log;
  clock: Pick<RedisClock, 'nowMs'>;
  source: string;
  allowPrivate: boolean;
  limits: DeliverLimits;
};

/** One run of deliveries to one endpoint. `end` is by `performance.now()`. */
type Run = DeliverDeps & { lease: string; connection: EndpointConnection; end: number };

/**
 * Sends one endpoint the events that it has not received, one after the other: the retries of parked events that are
 * due, then replays and new events. An event that the endpoint rejects is parked with the later events of its subject,
 * and the run goes on with the others. So is an event that gets no response three times. Until then, and when events
 * of three subjects in a row fail, the run ends, and all events wait. The position of the endpoint moves after each
 * delivery. A crash in between delivers that one event again.
 *
 * A run to an endpoint that is dead makes one call. After an odd number of failures new events come first. So each
 * event is tried in turn, and none that fails alone keeps the endpoint waiting.
 * @returns whether the time of the run ended before everything was sent
 */
export async function deliverTo(endpointId: string, deps: DeliverDeps): Promise<boolean> {
  const { endpoints, limits } = deps;
  const lease = randomUUID();
  const leased = await endpoints.lease(endpointId, lease, limits.leaseMs);
  if (!leased) return false;
  const connection = new EndpointConnection(deps.allowPrivate, limits);
  const run = { ...deps, lease, connection, end: performance.now() + limits.runMs };
  const steps = leased.attempts % 2 === 0 ? [retryParked, deliverStretches] : [deliverStretches, retryParked];
  try {
    let endpoint: WebhookEndpoint | null = leased;
    for (const step of steps) endpoint &&= await step(run, endpoint);
    return endpoint !== null && performance.now() >= run.end;
  } finally {
    connection.close();
    await endpoints.release(endpointId, lease);
  }
}

/** @returns the endpoint if it may receive more, else null */
async function retryParked(run: Run, endpoint: WebhookEndpoint): Promise<WebhookEndpoint | null> {
  const { outbox, endpoints, parking, lease, limits } = run;
  let current: WebhookEndpoint | null = endpoint;
  while (current && performance.now() < run.end) {
    const head = await parking.nextDue(endpoint.id);
    if (!head) return current;
    // Its endpoint may not want it any more.
    const { types, campaignIds: campaigns } = current;
    const [event] = await outbox.read({ after: head.seq - 1, upTo: head.seq, types, campaigns }, 1);
    if (event) {
      const result = await post(run, current, event);
      if (!result.delivered) {
        current = (await isGone(run, current, event, result))
          ? null
          : await failParked(run, current, head, event, result);
        continue;
      }
      current = await endpoints.delivered(endpoint.id, lease, limits.leaseMs);
      if (!current) return null;
    }
    if (!(await parking.remove(endpoint.id, lease, head))) return null;
  }
  return current;
}

/** @returns the endpoint if it may receive more, else null */
async function deliverStretches(run: Run, endpoint: WebhookEndpoint): Promise<WebhookEndpoint | null> {
  let current: WebhookEndpoint | null = endpoint;
  while (current && performance.now() < run.end) {
    const stretch = await run.endpoints.nextStretch(current, await run.outbox.lastSeq());
    if (!stretch) return current;
    current = await deliverStretch(run, current, stretch);
  }
  return current;
}

/** @returns the endpoint if it may receive more, else null */
async function deliverStretch(run: Run, endpoint: WebhookEndpoint, stretch: Stretch): Promise<WebhookEndpoint | null> {
  const { outbox, endpoints, parking, lease, limits } = run;
  const { types, campaignIds: campaigns } = endpoint;
  const events = await outbox.read({ ...stretch, types, campaigns }, limits.batch);
  const parked = await parking.subjects(endpoint.id);
  let current: WebhookEndpoint | null = endpoint;
  for (const event of events) {
    if (performance.now() >= run.end) return current;
    const delivered = await deliverOrPark(run, current, event, parked);
    if (delivered === null) return null;
    current = await endpoints.advance(endpoint.id, lease, limits.leaseMs, stretch, event.seq, delivered);
    if (!current) return null;
  }
  if (events.length === limits.batch) return current;
  return endpoints.advance(endpoint.id, lease, limits.leaseMs, stretch, stretch.upTo, false);
}

/**
 * @param parked the subjects with parked events, which this function adds to
 * @returns true = delivered, false = parked, null = the endpoint fails, which has been recorded, or it was changed
 */
async function deliverOrPark(
  run: Run,
  endpoint: WebhookEndpoint,
  event: OutboxEvent,
  parked: Map<string, number>,
): Promise<boolean | null> {
  const { endpoints, parking, metrics, log, lease, limits } = run;
  const { subject, seq } = event;
  const behind = parked.get(subject);
  const isFull = [...parked.values()].reduce((sum, events) => sum + events, 0) >= limits.parkedEvents;
  if (behind !== undefined) {
    if (isFull) {
      await endpoints.fail(endpoint.id, lease, 'too many events wait for failing ones', limits.retry);
      return null;
    }
    await parking.parkBehind(endpoint.id, lease, { subject, seq });
    parked.set(subject, behind + 1);
    return false;
  }
  const result = await post(run, endpoint, event);
  if (result.delivered) return true;
  if (await isGone(run, endpoint, event, result)) return null;
  const isTriedAgain = isOfEndpoint(result) && endpoint.attempts + 1 < ATTEMPTS_OF_ENDPOINT;
  if (isTriedAgain || isFull || (await parking.failedInARow(endpoint.id)) + 1 >= SUBJECTS_IN_A_ROW) {
    await failEndpoint(run, endpoint, event, result);
    return null;
  }
  const retry = limits.retry;
  if (!(await parking.parkFailed(endpoint.id, lease, { subject, seq }, String(result.error), retry))) {
    dropResult(run, endpoint, event, result);
    return null;
  }
  parked.set(subject, 1);
  metrics.webhookDeliveries.inc({ outcome: 'failed' });
  log.warn(
    { endpoint: endpoint.id, event: event.id, subject, reason: result.error },
    'a webhook event failed; it and later events of its subject are retried apart from the others',
  );
  return false;
}

async function post(run: Run, endpoint: WebhookEndpoint, event: OutboxEvent): Promise<PostResult> {
  const body = cloudEvent(event, run.source);
  const span = startPost(run.tracing ?? null, endpoint, event, run.source);
  // The receiver continues the trace from the span of this call.
  const trace = span?.traceparent ?? event.trace;
  const result = await sendEvent(run.connection, endpoint, { ...event, trace, body }, run.clock.nowMs());
  span?.end(endOfPost(result));
  await run.attempts.insert(endpoint.id, event, result);
  if (result.delivered) run.metrics.webhookDeliveries.inc({ outcome: 'delivered' });
  return result;
}

/** Whether there was no response, or one about the endpoint. */
const isOfEndpoint = ({ status }: PostResult) => status === null || status < 400 || OF_ENDPOINT.includes(status);

/** Disables an endpoint that responded with 410. @returns whether it did */
async function isGone(run: Run, endpoint: WebhookEndpoint, event: OutboxEvent, result: PostResult): Promise<boolean> {
  if (result.status !== GONE) return false;
  if (!(await run.endpoints.disable(endpoint.id, run.lease, 'it responded with 410 Gone'))) {
    dropResult(run, endpoint, event, result);
    return true;
  }
  run.metrics.webhookDeliveries.inc({ outcome: 'gone' });
  run.log.warn({ endpoint: endpoint.id, event: event.id }, 'a webhook endpoint responded with 410 and was disabled');
  return true;
}

/** Records a failure of the endpoint as a whole. All its events wait. */
async function failEndpoint(
  run: Run,
  endpoint: WebhookEndpoint,
  event: OutboxEvent,
  result: PostResult,
): Promise<void> {
  const { error } = result;
  const { endpoints, metrics, log, lease } = run;
  const about = { endpoint: endpoint.id, event: event.id };
  const failure = await endpoints.fail(endpoint.id, lease, String(error), run.limits.retry);
  if (!failure) return dropResult(run, endpoint, event, result);
  metrics.webhookDeliveries.inc({ outcome: failure.enabled ? 'failed' : 'given_up' });
  if (failure.enabled)
    log.warn(
      { ...about, reason: error, attempts: failure.attempts },
      'a webhook was not delivered; it will be retried',
    );
  else log.error({ ...about, reason: error }, 'a webhook endpoint failed for too long and was disabled');
}

/** Logs a failure that is not recorded, because the endpoint was changed during the call. */
function dropResult({ log }: Run, { id }: WebhookEndpoint, event: OutboxEvent, { error }: PostResult): void {
  const about = { endpoint: id, event: event.id, reason: error };
  log.info(about, 'a webhook endpoint was changed during a delivery; the failure was not recorded');
}

/**
 * Records the failure of a retry. After events of three subjects in a row without a response, the endpoint fails as a
 * whole.
 * @returns the endpoint if it may receive more, else null
 */
async function failParked(
  run: Run,
  endpoint: WebhookEndpoint,
  head: ParkedHead,
  event: OutboxEvent,
  result: PostResult,
): Promise<WebhookEndpoint | null> {
  const { endpoints, parking, metrics, log, limits, lease } = run;
  const { id } = endpoint;
  const { error } = result;
  const failure = await parking.fail(id, lease, head, String(error), limits.retry);
  if (!failure) {
    dropResult(run, endpoint, event, result);
    return null;
  }
  const { attempts, givenUp } = failure;
  const about = { endpoint: id, event: event.id, subject: head.subject, reason: error, attempts };
  if (givenUp) {
    metrics.webhookDeliveries.inc({ outcome: 'given_up' });
    log.error(about, 'a webhook event failed for too long and waits for an operator');
    // An endpoint that rejects all events is disabled, as one that does not respond.
    await endpoints.disableSilent(id, lease, `failing too long: ${error}`, limits.retry.giveUpMs);
  }
  const current = await endpoints.extend(id, lease, limits.leaseMs);
  if (current && isOfEndpoint(result) && (await run.attempts.failedInARow(id, OF_ENDPOINT)) >= SUBJECTS_IN_A_ROW) {
    await failEndpoint(run, current, event, result);
    return null;
  }
  if (!givenUp) {
    metrics.webhookDeliveries.inc({ outcome: 'failed' });
    log.warn(about, 'a webhook event failed again; it will be retried');
  }
  return current;
}
