import { expect, it } from '@jest/globals';
import { type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import { SpanQueue } from './span-queue.js';

const LIMITS = { spansWaiting: 10, spansPerExport: 4, spanExportEveryMs: 3_600_000, spanExportMs: 3_600_000 };

function queueBefore(exporter: SpanExporter['export']) {
  const results: (string | null)[] = [];
  const queue = new SpanQueue({ export: exporter, shutdown: async () => {} }, LIMITS, (error) =>
    results.push(error?.message ?? null),
  );
  const tracer = new TracerProvider({ spanProcessors: [queue] }).getTracer('test');
  const end = (spans: number) => {
    for (let i = 0; i < spans; i += 1) tracer.startSpan('span').end();
  };
  return { queue, end, results };
}

it('drops and counts spans while as many wait as may, beside those under way', async () => {
  const underWay: number[] = [];
  let finish: (() => void) | null = null;
  let isAway = true;
  const { queue, end } = queueBefore((spans, done) => {
    underWay.push(spans.length);
    finish = () => done({ code: 0 });
    if (!isAway) finish();
  });
  end(4);
  expect(underWay).toEqual([4]);
  end(10);
  expect(queue.counts).toEqual({ sent: 0, dropped: 0, failed: 0 });
  end(3);
  expect(queue.counts).toEqual({ sent: 0, dropped: 3, failed: 0 });
  expect(underWay).toEqual([4]);
  isAway = false;
  (finish as (() => void) | null)?.();
  await queue.shutdown();
});

it('counts spans that the receiver has taken, and those that it has not', async () => {
  let error: Error | null = null;
  const { queue, end, results } = queueBefore((_, done) => done(error === null ? { code: 0 } : { code: 1, error }));
  end(3);
  await queue.forceFlush();
  error = new Error('away');
  end(2);
  await queue.forceFlush().catch(() => {});
  expect(queue.counts).toEqual({ sent: 3, dropped: 0, failed: 2 });
  expect(results).toEqual([null, 'away']);
  // What was sent no longer waits.
  error = null;
  end(3);
  await queue.forceFlush();
  expect(queue.counts).toEqual({ sent: 6, dropped: 0, failed: 2 });
  await queue.shutdown();
});
