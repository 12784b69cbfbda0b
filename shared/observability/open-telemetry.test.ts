import { afterAll, describe, expect, it } from '@jest/globals';
import { LIMITS } from '../config/limits.js';
import { createLog } from './log.js';
import { OpenTelemetry } from './open-telemetry.js';
import { traceBatch } from './trace-batch.js';
import { isSampled, type SpanStart, startStep, type TracingSettings, unsampled } from './tracing.js';

const RECORDED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const INVALID = '00-00000000000000000000000000000000-0000000000000000-01';
const UNRECORDED = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00';

type SamplerName = TracingSettings['sampler'];
const opened: OpenTelemetry[] = [];
function open(sampler: SamplerName, ratio = 1): OpenTelemetry {
  const config = { url: 'http://127.0.0.1:1/v1/traces', serviceName: 'shop', sampler, ratio };
  const tracing = new OpenTelemetry(
    config,
    LIMITS.tracing,
    { component: 'api', version: '1' },
    createLog('test', 'silent'),
  );
  opened.push(tracing);
  return tracing;
}
afterAll(() => Promise.all(opened.map((tracing) => tracing.stop())));

const start = (kind: SpanStart['kind'], parent: string): SpanStart => ({ kind, parent, attributes: {} });

describe('OpenTelemetry', () => {
  it.each<[SamplerName, number, [boolean, boolean, boolean]]>([
    ['always_on', 1, [true, true, true]],
    ['always_off', 1, [false, false, false]],
    ['traceidratio', 0, [false, false, false]],
    ['traceidratio', 1, [true, true, true]],
    ['parentbased_always_on', 1, [true, true, false]],
    ['parentbased_always_off', 1, [false, true, false]],
    ['parentbased_traceidratio', 0, [false, true, false]],
  ])(
    'decides by %s with %d about requests without a context, of a recorded and of an unrecorded one',
    (sampler, ratio, expected) => {
      const tracing = open(sampler, ratio);
      const recorded = ['', RECORDED, UNRECORDED].map(
        (parent) => tracing.start('GET', start('server', parent)) !== null,
      );
      expect(recorded).toEqual(expected);
    },
  );

  it('records about the share of requests that traceidratio has', () => {
    const tracing = open('parentbased_traceidratio', 0.1);
    const requests = Array.from({ length: 5_000 }, () => tracing.start('GET', start('server', '')));
    const share = requests.filter((span) => span !== null).length / requests.length;
    expect(share).toBeGreaterThan(0.05);
    expect(share).toBeLessThan(0.15);
  });

  it('does not let a context without a valid id decide', () => {
    expect(open('parentbased_always_off').start('GET', start('server', INVALID))).toBeNull();
    expect(open('parentbased_always_on').start('GET', start('server', INVALID))).not.toBeNull();
  });

  it('follows the decision about the request in its steps, whatever the sampler', () => {
    const tracing = open('always_off');
    const step = startStep(tracing, 'reserve', start('client', RECORDED));
    expect(step?.traceparent).toMatch(/^00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-01$/);
    expect(step?.traceparent).not.toBe(RECORDED);
    for (const parent of [UNRECORDED, '', 'malformed'])
      expect(startStep(open('always_on'), 'reserve', start('client', parent))).toBeNull();
    expect(startStep(null, 'reserve', start('client', RECORDED))).toBeNull();
  });
});

describe('the flag of a trace context', () => {
  it('is the last bit', () => {
    expect(
      [RECORDED, UNRECORDED, `${RECORDED.slice(0, -2)}03`, `${RECORDED.slice(0, -2)}02`, ''].map(isSampled),
    ).toEqual([...[true, false, true, false, false]]);
    expect([RECORDED, UNRECORDED, ''].map(unsampled)).toEqual([UNRECORDED, UNRECORDED, '']);
  });
});

describe('traceBatch', () => {
  const batch = { name: 'persist journal', kind: 'consumer', startMs: 0, size: 300, attributes: {} } as const;
  const started = (members: readonly string[]) => {
    const spans: SpanStart[] = [];
    const recording = {
      spansPerBatch: LIMITS.tracing.spansPerBatch,
      start: (_: string, span: SpanStart) => {
        spans.push(span);
        return { traceparent: UNRECORDED, end: () => {} };
      },
    };
    traceBatch(
      recording,
      batch,
      members.map((trace) => ({ trace, attributes: {} })),
    );
    return spans;
  };

  it('records nothing for members without a recorded trace', () => {
    expect(started(['', UNRECORDED])).toEqual([]);
  });

  it('records a span of the batch and one of each recorded member, linked with each other', () => {
    const [whole, member, ...others] = started(['', RECORDED, UNRECORDED]);
    expect(whole).toMatchObject({
      parent: '',
      links: [RECORDED],
      attributes: { 'messaging.batch.message_count': 300 },
    });
    expect(member).toMatchObject({ parent: RECORDED, links: [UNRECORDED] });
    expect(others).toEqual([]);
  });

  it('bounds the number of members', () => {
    expect(started(Array(300).fill(RECORDED))).toHaveLength(129);
  });
});
