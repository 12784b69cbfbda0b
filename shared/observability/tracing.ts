import type { Lifecycle } from './lifecycle.js';
import type { Log } from './log.js';
import type { Metrics } from './metrics.js';
import type { SpanQueueLimits } from './span-queue.js';

/** Where spans are sent, and of which requests they are. */
export type TracingSettings = {
  url: string;
  serviceName: string;
  sampler: `${'' | 'parentbased_'}${'always_on' | 'always_off' | 'traceidratio'}`;
  /** Share of requests that the samplers with `traceidratio` record, from 0 to 1. */
  ratio: number;
};

export type TracingLimits = SpanQueueLimits & {
  /** Members of a batch that get a span. */
  spansPerBatch: number;
  spanStopMs: number;
};

export type SpanKind = 'server' | 'client' | 'producer' | 'consumer';
export type SpanAttributes = Record<string, string | number>;

export type SpanStart = {
  kind: SpanKind;
  /** The `traceparent` of the span that causes this one; "" = none, so it begins a trace. */
  parent: string;
  attributes: SpanAttributes;
  /** The `traceparent` of each span that belongs to this one without causing it. */
  links?: readonly string[];
  /** By `performance.now()`; left out = now. */
  startMs?: number;
};

export type SpanEnd = {
  /** Replaces the name of the start. */
  name?: string;
  attributes?: SpanAttributes;
  /** The class of the error that failed the operation; left out = it did not fail. */
  error?: string;
};

/** A span that is being recorded. */
export type Span = {
  /** The trace context of what this span causes, as the header has it. */
  readonly traceparent: string;
  /** Ends the span now. It is sent later. */
  end(end?: SpanEnd): void;
};

/** Records spans. A process without a receiver has none, so that callers skip all work with one comparison. */
export type Tracing = {
  /** Members of a batch that get a span. */
  readonly spansPerBatch: number;
  /** @returns null when the sampler or the caller has decided against this trace */
  start(name: string, start: SpanStart): Span | null;
};

const TRACEPARENT_LENGTH = 55;

/** Whether the spans of this `traceparent` are recorded. */
export function isSampled(traceparent: string): boolean {
  return traceparent.length === TRACEPARENT_LENGTH && (Number.parseInt(traceparent.slice(-1), 16) & 1) === 1;
}

/** The same context for a process that did not record the request. */
export function unsampled(traceparent: string): string {
  return isSampled(traceparent) ? `${traceparent.slice(0, -2)}00` : traceparent;
}

/**
 * Starts the span of a step of a request.
 * @returns null without tracing, or when the request is not recorded
 */
export function startStep(tracing: Tracing | null, name: string, start: SpanStart): Span | null {
  return tracing !== null && isSampled(start.parent) ? tracing.start(name, start) : null;
}

export type TracingDeps = {
  settings: TracingSettings | null;
  limits: TracingLimits;
  component: 'api' | 'worker';
  version: string;
  metrics: Metrics;
  log: Log;
  life: Lifecycle;
};

/**
 * Starts tracing if a receiver is configured. The packages of OpenTelemetry are loaded only then.
 * @returns null when there is no receiver
 */
export async function openTracing({
  settings,
  limits,
  metrics,
  log,
  life,
  ...about
}: TracingDeps): Promise<Tracing | null> {
  if (settings === null) return null;
  const { OpenTelemetry } = await import('./open-telemetry.js');
  const tracing = new OpenTelemetry(settings, limits, about, log);
  metrics.observeCounts('spans_total', 'Spans, by what became of them', 'outcome', () => tracing.counts);
  life.add('tracing', { stop: () => tracing.stop() });
  return tracing;
}
