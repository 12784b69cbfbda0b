import { isSampled, type SpanAttributes, type SpanKind, type Tracing } from './tracing.js';

export type BatchMember = {
  /** The `traceparent` that the member carries; "" = none. */
  trace: string;
  attributes: SpanAttributes;
};

export type TracedBatch = {
  /** Span name: operation and destination. */
  name: string;
  kind: Extract<SpanKind, 'producer' | 'consumer'>;
  /** By `performance.now()`. */
  startMs: number;
  attributes: SpanAttributes;
  /** How many things were processed together. */
  size: number;
};

/**
 * Records the spans of a batch that is done. Each member that is recorded gets a span in its own trace, so that the
 * trace of a request is whole. One span of the batch, in a trace of its own, is linked with all of them. At most
 * `spansPerBatch` members get spans.
 */
export function traceBatch(
  tracing: Tracing,
  { name, kind, startMs, attributes, size }: TracedBatch,
  members: Iterable<BatchMember>,
): void {
  const sampled: BatchMember[] = [];
  for (const member of members) {
    if (!isSampled(member.trace)) continue;
    sampled.push(member);
    if (sampled.length >= tracing.spansPerBatch) break;
  }
  if (sampled.length === 0) return;
  const batch = tracing.start(name, {
    kind,
    parent: '',
    startMs,
    attributes: { ...attributes, 'messaging.batch.message_count': size },
    links: sampled.map(({ trace }) => trace),
  });
  if (batch === null) return;
  for (const { trace, attributes: own } of sampled) {
    tracing
      .start(name, { kind, parent: trace, startMs, attributes: { ...attributes, ...own }, links: [batch.traceparent] })
      ?.end();
  }
  batch.end();
}
