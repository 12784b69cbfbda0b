import type { Context } from '@opentelemetry/api';
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type Span,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace';

export type SpanQueueLimits = {
  /** Spans that wait; further ones are dropped. */
  spansWaiting: number;
  spansPerExport: number;
  spanExportEveryMs: number;
  spanExportMs: number;
};

/** Spans by what became of them. `dropped`: too many waited. `failed`: the receiver did not take them. */
export type SpanCounts = { sent: number; dropped: number; failed: number };

type Exporting = Parameters<SpanExporter['export']>;

/**
 * The queue of spans before the exporter. The batch processor of OpenTelemetry drops spans silently when its queue is
 * full, so this one counts them and keeps the queue within the same limit.
 */
export class SpanQueue implements SpanProcessor {
  readonly counts: SpanCounts = { sent: 0, dropped: 0, failed: 0 };
  #waiting = 0;
  readonly #batches: BatchSpanProcessor;

  /** @param onResult receives the error of each export; null = it succeeded */
  constructor(
    exporter: SpanExporter,
    readonly limits: SpanQueueLimits,
    onResult: (error: Error | null) => void,
  ) {
    const exportCounted = (...[spans, done]: Exporting) => {
      this.#waiting -= spans.length;
      exporter.export(spans, (result) => {
        const error = result.code === 0 ? null : (result.error ?? new Error('the receiver did not take the spans'));
        this.counts[error === null ? 'sent' : 'failed'] += spans.length;
        onResult(error);
        done(result);
      });
    };
    this.#batches = new BatchSpanProcessor({
      exporter: { export: exportCounted, shutdown: () => exporter.shutdown() },
      maxQueueSize: limits.spansWaiting,
      maxExportBatchSize: limits.spansPerExport,
      scheduledDelayMillis: limits.spanExportEveryMs,
      exportTimeoutMillis: limits.spanExportMs,
    });
  }

  onStart(span: Span, context: Context): void {
    this.#batches.onStart(span, context);
  }

  onEnd(span: ReadableSpan): void {
    if (this.#waiting >= this.limits.spansWaiting) {
      this.counts.dropped += 1;
      return;
    }
    this.#waiting += 1;
    this.#batches.onEnd(span);
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.#batches.shutdown();
  }
}
