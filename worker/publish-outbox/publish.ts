import { cloudEvent, type OutboxEvent } from '../../shared/contracts/events.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Tracing } from '../../shared/observability/tracing.js';
import type { OutboxCursors } from '../../shared/postgres/outbox-cursors.js';
import type { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import type { EventStream } from '../../shared/redis/event-stream.js';
import type { Outbox } from './outbox.js';
import { traceSent } from './trace-sent.js';

export type PublishDeps = {
  outbox: Outbox;
  stream: EventStream;
  endpoints: WebhookEndpoints;
  /** Adds the job that delivers to one endpoint. */
  wake: (endpointId: string) => Promise<unknown>;
  /** The position of Kafka; left out = there is no Kafka. */
  kafka?: Pick<OutboxCursors, 'find'>;
  metrics: Metrics;
  log: Log;
  /** null = no spans are recorded */
  tracing?: Tracing | null;
  /** The `source` attribute of the CloudEvents. */
  source: string;
  limits: { publishBatch: number };
};

/**
 * Publishes the events that the stream lacks, starts deliveries to endpoints that are due, and measures the lag of each
 * destination. A repeated, late or concurrent run does no harm.
 * @returns whether any endpoint is enabled
 */
export async function sweepOutbox(deps: PublishDeps): Promise<boolean> {
  const { outbox, endpoints, metrics } = deps;
  const upTo = await outbox.lastSeq();
  const streamSeq = await publishToStream(deps, upTo);
  const inUse = (await endpoints.list()).filter(({ enabled }) => enabled);
  if (inUse.length > 0) await wakeEndpoints(deps, upTo);

  const positions = new Map(inUse.map(({ id, lastSeq }) => [id, lastSeq]));
  const kafka = await deps.kafka?.find('kafka');
  if (kafka) positions.set(kafka.destination, kafka.lastSeq);
  metrics.outboxLag.reset();
  metrics.outboxBacklog.reset();
  for (const [destination, lastSeq] of positions.set('stream', streamSeq)) {
    metrics.outboxLag.set({ destination }, lastSeq < upTo ? await outbox.lagSeconds(lastSeq) : 0);
    metrics.outboxBacklog.set({ destination }, Math.max(0, upTo - lastSeq));
  }
  return inUse.length > 0;
}

/** Adds a job for each endpoint that has not received all events up to `upTo`. One that waits already is enough. */
export async function wakeEndpoints({ endpoints, wake }: PublishDeps, upTo: number): Promise<void> {
  await Promise.all((await endpoints.due(upTo)).map(wake));
}

/**
 * Appends the events of the outbox that the stream lacks.
 * @returns the sequence number of the last event of the stream
 */
export async function publishToStream(deps: PublishDeps, upTo: number): Promise<number> {
  const { outbox, stream, limits } = deps;
  const lastSeq = await stream.lastSeq();
  if (lastSeq > upTo && (await outbox.isAhead(lastSeq))) upTo = await continueNumbers(deps, lastSeq);
  // A Redis that lost its data gets only as many events as the stream keeps.
  let after = Math.max(lastSeq, upTo - stream.length);
  while (after < upTo) {
    const events = await outbox.read({ after, upTo, types: null }, limits.publishBatch);
    const last = events.at(-1);
    if (!last) break;
    await appendToStream(deps, events, null);
    after = last.seq;
  }
  return after;
}

/**
 * Postgres was set back, and would give numbers again that the stream rejects (decision 8).
 * @returns the sequence number of the last event of the outbox
 */
async function continueNumbers({ outbox, stream, log, limits }: PublishDeps, lastSeq: number): Promise<number> {
  const renumbered = await outbox.continueAfter(lastSeq, await stream.published(limits.publishBatch));
  log.warn({ lastSeq, renumbered }, 'Postgres was set back; new events continue after the numbers of the stream');
  return outbox.lastSeq();
}

/**
 * Appends events to the stream.
 * @param after the event that the stream must end with; null = any
 * @returns null when the events were appended, else the last event of the stream
 */
export async function appendToStream(
  { stream, source, metrics, tracing }: PublishDeps,
  events: readonly OutboxEvent[],
  after: number | null,
): Promise<number | null> {
  const startMs = tracing ? performance.now() : 0;
  const last = await stream.append(
    events.map((event) => {
      const { seq, id, type, subject } = event;
      return { seq, id, type, subject, json: cloudEvent(event, source) };
    }),
    after,
  );
  if (last !== null) return last;
  metrics.eventsPublished.inc(events.length);
  if (tracing) traceSent(tracing, events, { destination: 'events', system: 'redis', source, startMs });
  return null;
}

export type PruneDeps = {
  outbox: Outbox;
  stream: EventStream;
  /** null = there is no Kafka */
  kafka: { keepMs: number } | null;
  metrics: Metrics;
  log: Log;
  limits: { outboxKeepMs: number; pruneBatch: number; pruneBatches: number };
};

/** Deletes old events that every destination has received, and those that are too old to wait for Kafka. */
export async function pruneOutbox({ outbox, stream, kafka, metrics, log, limits }: PruneDeps): Promise<void> {
  const seq = await stream.lastSeq();
  for (let batch = 0; batch < limits.pruneBatches; batch += 1) {
    const { removed, skipped } = await outbox.prune(seq, limits.outboxKeepMs, limits.pruneBatch, kafka);
    if (skipped > 0) {
      metrics.kafkaSkipped.inc(skipped);
      log.error({ events: skipped }, 'events were deleted that Kafka had not received in KAFKA_KEEP_DAYS');
    }
    if (removed < limits.pruneBatch) return;
  }
}
