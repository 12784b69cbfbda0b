import type { OutboxEvent } from '../../shared/contracts/events.js';
import type { PostResult } from '../../shared/contracts/post-result.js';
import { type BatchMember, traceBatch } from '../../shared/observability/trace-batch.js';
import {
  type Span,
  type SpanAttributes,
  type SpanEnd,
  startStep,
  type Tracing,
} from '../../shared/observability/tracing.js';

/** Records the spans of events that a destination has received. @param startMs by `performance.now()` */
export function traceSent(
  tracing: Tracing,
  events: readonly OutboxEvent[],
  { destination, system, source, startMs }: { destination: string; system: string; source: string; startMs: number },
): void {
  traceBatch(
    tracing,
    {
      name: `publish ${destination}`,
      kind: 'producer',
      startMs,
      size: events.length,
      attributes: {
        'messaging.system': system,
        'messaging.destination.name': destination,
        'messaging.operation.name': 'publish',
        'messaging.operation.type': 'send',
      },
    },
    membersOf(events, source),
  );
}

function* membersOf(events: readonly OutboxEvent[], source: string): Iterable<BatchMember> {
  for (const event of events) {
    if (event.trace) yield { trace: event.trace, attributes: eventAttributes(event, source) };
  }
}

function eventAttributes({ id, type, subject }: OutboxEvent, source: string): SpanAttributes {
  return {
    'cloudevents.event_id': id,
    'cloudevents.event_type': type,
    'cloudevents.event_source': source,
    'cloudevents.event_subject': subject,
  };
}

/** Starts the span of one delivery. It has the host of the endpoint alone, because paths and queries may be secret. */
export function startPost(
  tracing: Tracing | null,
  { id, url }: { id: string; url: string },
  event: OutboxEvent,
  source: string,
): Span | null {
  if (tracing === null || event.trace === null) return null;
  const { protocol, hostname, port } = new URL(url);
  return startStep(tracing, 'POST webhook', {
    kind: 'client',
    parent: event.trace,
    attributes: {
      'http.request.method': 'POST',
      'server.address': hostname,
      'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
      'doorbuster.webhook': id,
      ...eventAttributes(event, source),
    },
  });
}

export function endOfPost({ delivered, status }: PostResult): SpanEnd {
  return {
    attributes: status === null ? {} : { 'http.response.status_code': status },
    ...(delivered ? {} : { error: status === null ? 'no_response' : String(status) }),
  };
}
