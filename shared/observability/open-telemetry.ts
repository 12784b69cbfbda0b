import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Context,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Log } from './log.js';
import { SpanQueue } from './span-queue.js';
import type { Span, SpanEnd, SpanStart, Tracing, TracingLimits, TracingSettings } from './tracing.js';

const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
} as const;

type Process = { component: 'api' | 'worker'; version: string };

/**
 * Records spans with the SDK of OpenTelemetry and sends them by OTLP over HTTP. It registers nothing globally: callers
 * pass the parent of each span, so there is no context to carry through every `await`.
 */
export class OpenTelemetry implements Tracing {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #queue: SpanQueue;
  /** Share of the requests without a context that are recorded. */
  readonly #share: number;
  #isFailing = false;

  constructor(
    settings: TracingSettings,
    readonly limits: TracingLimits,
    { component, version }: Process,
    readonly log: Log,
  ) {
    this.#share = shareOf(settings);
    this.#queue = new SpanQueue(
      new OTLPTraceExporter({ url: settings.url, timeoutMillis: limits.spanExportMs }),
      limits,
      (error) => this.#exported(error),
    );
    this.#provider = new TracerProvider({
      resource: defaultResource()
        .merge(resourceFromAttributes({ 'service.version': version, 'doorbuster.component': component }))
        .merge(detectResources({ detectors: [envDetector] }))
        .merge(resourceFromAttributes({ 'service.name': settings.serviceName })),
      sampler: samplerOf(settings),
      spanLimits: { linkCountLimit: limits.spansPerBatch },
      spanProcessors: [this.#queue],
    });
    this.#tracer = this.#provider.getTracer('doorbuster', version);
  }

  get spansPerBatch(): number {
    return this.limits.spansPerBatch;
  }

  get counts() {
    return this.#queue.counts;
  }

  start(name: string, { kind, parent, attributes, links, startMs }: SpanStart): Span | null {
    // Decided here, because a span that is not recorded costs the SDK as much as half of one that is.
    if (kind === 'server' && parent === '' && Math.random() >= this.#share) return null;
    const span = this.#tracer.startSpan(
      name,
      {
        kind: KINDS[kind],
        attributes,
        ...(links === undefined ? {} : { links: links.map((link) => ({ context: contextOf(link) })) }),
        ...(startMs === undefined ? {} : { startTime: startMs }),
      },
      parentOf(parent),
    );
    if (!span.isRecording()) return null;
    const { traceId, spanId } = span.spanContext();
    return {
      traceparent: `00-${traceId}-${spanId}-01`,
      end: ({ name: lastName, attributes: more, error }: SpanEnd = {}) => {
        if (lastName !== undefined) span.updateName(lastName);
        if (more !== undefined) span.setAttributes(more);
        if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute('error.type', error);
        span.end();
      },
    };
  }

  /** Sends what waits, for a bounded time. A receiver that is away does not hold up the stop. */
  async stop(): Promise<void> {
    await Promise.race([
      this.#provider.shutdown().catch(() => {
        // `#exported` has logged it.
      }),
      sleep(this.limits.spanStopMs, undefined, { ref: false }),
    ]);
  }

  /** Logs when spans can no longer be sent, and when they can again. */
  #exported(error: Error | null): void {
    if (error !== null && !this.#isFailing) {
      this.log.warn({ reason: error.message }, 'spans could not be sent; they are lost until the receiver is back');
    }
    if (error === null && this.#isFailing) this.log.info({}, 'spans are sent again');
    this.#isFailing = error !== null;
  }
}

/** The span context in a `traceparent`, whose form the caller has checked. */
function contextOf(traceparent: string): SpanContext {
  return {
    traceId: traceparent.slice(3, 35),
    spanId: traceparent.slice(36, 52),
    traceFlags: Number.parseInt(traceparent.slice(53), 16),
    isRemote: true,
  };
}

function parentOf(traceparent: string): Context {
  return traceparent === '' ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, contextOf(traceparent));
}

function shareOf({ sampler, ratio }: TracingSettings): number {
  if (sampler.endsWith('always_on')) return 1;
  return sampler.endsWith('always_off') ? 0 : ratio;
}

/**
 * The configured sampler decides about requests with a context; `start` has decided about the others. Everything that a
 * request causes follows that decision, in the worker as well. A span of a batch is recorded because one of its
 * requests is.
 */
function samplerOf({ sampler, ratio }: TracingSettings): Sampler {
  const followers = new ParentBasedSampler({ root: new AlwaysOnSampler() });
  const ofRequests = requestSampler(sampler, ratio);
  const isRequestWithContext = (context: Context, kind: SpanKind) =>
    kind === SpanKind.SERVER && trace.getSpanContext(context) !== undefined;
  return {
    shouldSample: (context, traceId, name, kind, attributes, links) =>
      (isRequestWithContext(context, kind) ? ofRequests : followers).shouldSample(
        context,
        traceId,
        name,
        kind,
        attributes,
        links,
      ),
    toString: () => `Requests{${ofRequests.toString()}}`,
  };
}

function requestSampler(name: TracingSettings['sampler'], ratio: number): Sampler {
  const [rule, isParentBased] = name.startsWith('parentbased_')
    ? ([name.slice('parentbased_'.length), true] as const)
    : ([name, false] as const);
  const root =
    rule === 'always_on'
      ? new AlwaysOnSampler()
      : rule === 'always_off'
        ? new AlwaysOffSampler()
        : new TraceIdRatioBasedSampler(ratio);
  return isParentBased ? new ParentBasedSampler({ root }) : root;
}
