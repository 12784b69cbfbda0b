import { describe, expect, it } from '@jest/globals';
import { AggregatorRegistry, Counter, Histogram, Registry } from 'prom-client';
import { RequestTimes } from './request-times.js';

/** The same two metrics by the library's own means. */
function library(registry: Registry) {
  const histogram = new Histogram({
    name: 'x_http_request_seconds',
    help: 'Time from the request to the end of its answer, by route',
    labelNames: ['route'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2],
    registers: [registry],
  });
  const counter = new Counter({
    name: 'x_http_requests_total',
    help: 'Requests by route and status',
    labelNames: ['route', 'status'],
    registers: [registry],
  });
  return (route: string, status: number, seconds: number) => {
    histogram.observe({ route }, seconds);
    counter.inc({ route, status });
  };
}

describe('RequestTimes', () => {
  it('exports what the histogram and the counter of the library would', async () => {
    const [own, expected] = [new Registry(), new Registry()];
    const times = new RequestTimes(own, 'x_');
    const observe = library(expected);
    const seconds = [0, 0.0004, 0.001, 0.0010001, 0.0025, 0.03, 0.5, 0.7, 1.999, 2, 2.5, 60];
    for (const [i, value] of seconds.entries()) {
      const route = i % 3 === 0 ? '/flash-sale/checkout' : 'none';
      const status = i % 2 === 0 ? 200 : 404;
      times.observe(route, status, value);
      observe(route, status, value);
    }
    // Sorted: the order of series has no meaning.
    const lines = async (registry: Registry) => (await registry.metrics()).split('\n').sort();
    expect(await lines(own)).toEqual(await lines(expected));
    // A second scrape exports the same numbers again.
    expect(await lines(own)).toEqual(await lines(expected));
    const types = async (registry: Registry) =>
      (await registry.getMetricsAsJSON()).map(({ name, help, type, aggregator }) => [name, help, type, aggregator]);
    expect(await types(own)).toEqual(await types(expected));
  });

  it('is summed over processes', async () => {
    const processes = await Promise.all(
      [200, 503].map((status) => {
        const registry = new Registry();
        new RequestTimes(registry, 'x_').observe('/flash-sale/checkout', status, 0.004);
        return registry.getMetricsAsJSON();
      }),
    );
    const text = await AggregatorRegistry.aggregate(processes as object[]).metrics();
    expect(text).toContain('x_http_request_seconds_bucket{le="0.0025",route="/flash-sale/checkout"} 0');
    expect(text).toContain('x_http_request_seconds_bucket{le="0.005",route="/flash-sale/checkout"} 2');
    expect(text).toContain('x_http_request_seconds_count{route="/flash-sale/checkout"} 2');
    expect(text).toContain('x_http_requests_total{route="/flash-sale/checkout",status="503"} 1');
  });
});
