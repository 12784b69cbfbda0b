import { Counter, type Metric, type Registry } from 'prom-client';

/** Upper bounds of the buckets, in seconds. */
const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2];

/** The requests of one route. */
type Series = {
  /** Requests by the first bound that is not below their time; the last are beyond all bounds. */
  buckets: number[];
  /** Seconds of all requests. */
  sum: number;
  byStatus: Map<number, number>;
};

/**
 * The time of every request by route, and their number by route and status. Counted without the library: its histogram looks up
 * and checks the labels again for each value, which costs 3 µs a request.
 */
export class RequestTimes {
  readonly #routes = new Map<string, Series>();

  constructor(registry: Registry, prefix: string) {
    const series = this.#routes;
    const name = `${prefix}http_request_seconds`;
    // Without a status: routes times statuses times buckets would be thousands of series.
    const histogram = {
      name,
      get: async () => ({
        name,
        help: 'Time from the request to the end of its answer, by route',
        type: 'histogram',
        aggregator: 'sum',
        values: [...series].flatMap(([route, times]) => valuesOf(name, route, times)),
      }),
    };
    // The registry needs no more of a metric than this.
    registry.registerMetric(histogram as unknown as Metric);
    new Counter({
      name: `${prefix}http_requests_total`,
      help: 'Requests by route and status',
      labelNames: ['route', 'status'],
      registers: [registry],
      collect() {
        this.reset();
        for (const [route, { byStatus }] of series)
          for (const [status, count] of byStatus) this.inc({ route, status }, count);
      },
    });
  }

  /** Counts one request. @param route the pattern of a path, "none" = it was no path of ours */
  observe(route: string, status: number, seconds: number): void {
    let series = this.#routes.get(route);
    if (!series) {
      series = { buckets: Array(BOUNDS.length + 1).fill(0), sum: 0, byStatus: new Map() };
      this.#routes.set(route, series);
    }
    let i = 0;
    while (i < BOUNDS.length && seconds > Number(BOUNDS[i])) i += 1;
    series.buckets[i] = Number(series.buckets[i]) + 1;
    series.sum += seconds;
    series.byStatus.set(status, (series.byStatus.get(status) ?? 0) + 1);
  }
}

/** The values of one route as the library has them: each bucket contains those below it. */
function valuesOf(name: string, route: string, { buckets, sum }: Series) {
  let count = 0;
  const cumulative = buckets.map((requests, i) => {
    count += requests;
    return { labels: { le: BOUNDS[i] ?? '+Inf', route }, value: count, metricName: `${name}_bucket` };
  });
  return [
    ...cumulative,
    { labels: { route }, value: sum, metricName: `${name}_sum` },
    { labels: { route }, value: count, metricName: `${name}_count` },
  ];
}
