import { cloudEvent } from '../../shared/contracts/events.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { Outbox } from '../../shared/postgres/outbox.js';
import type { WebhookEndpoints } from '../../shared/postgres/webhook-endpoints.js';
import type { EventStream } from '../../shared/redis/event-stream.js';

export type PublishParts = {
  outbox: Outbox;
  stream: EventStream;
  endpoints: WebhookEndpoints;
  /** Makes the job that tells one endpoint; the same id is the same job. */
  wake: (endpointId: string, lastSeq: number) => Promise<void>;
  metrics: Metrics;
  /** `source` of the events. */
  source: string;
  limits: { publishBatch: number };
};

/** Carries the outbox to the stream and wakes those who carry it to webhooks. Twice, late or beside another does no harm. */
export async function publishOutbox(parts: PublishParts): Promise<void> {
  const { outbox, endpoints, wake, metrics } = parts;
  const upTo = await outbox.lastSeq();
  const streamSeq = await publishToStream(parts, upTo);
  for (const endpointId of await endpoints.due(upTo)) await wake(endpointId, upTo);

  metrics.outboxLag.reset();
  metrics.outboxLag.set({ destination: 'stream' }, await outbox.lagSeconds(streamSeq));
  for (const { id, enabled, lastSeq } of await endpoints.list()) {
    if (enabled) metrics.outboxLag.set({ destination: id }, await outbox.lagSeconds(lastSeq));
  }
}

/** @returns how far the stream is */
async function publishToStream(
  { outbox, stream, source, metrics, limits }: PublishParts,
  upTo: number,
): Promise<number> {
  // A Redis that lost its data gets what it would still have.
  let after = Math.max(await stream.lastSeq(), upTo - stream.length);
  for (;;) {
    const events = await outbox.read({ after, upTo, types: null }, limits.publishBatch);
    const last = events.at(-1);
    if (!last) return after;
    await stream.append(
      events.map((event) => {
        const { seq, id, type, subject } = event;
        return { seq, id, type, subject, json: cloudEvent(event, source) };
      }),
    );
    metrics.eventsPublished.inc(events.length);
    after = last.seq;
  }
}

/** Forgets what everybody has heard long ago. */
export async function pruneOutbox(
  outbox: Outbox,
  stream: EventStream,
  limits: { outboxKeepMs: number; pruneBatch: number; pruneBatches: number },
): Promise<void> {
  const seq = await stream.lastSeq();
  for (let batch = 0; batch < limits.pruneBatches; batch += 1) {
    if ((await outbox.prune(seq, limits.outboxKeepMs, limits.pruneBatch)) < limits.pruneBatch) return;
  }
}
