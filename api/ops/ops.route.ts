import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { z } from 'zod';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { Recent } from '../../shared/observability/recent.js';
import type { MetricsStore } from '../../shared/redis/metrics-store.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import { defineRoute } from '../http/define-route.js';
import type { Route } from '../http/route.js';
import { API_HEADERS } from '../http/security-headers.js';
import { accepts } from '../http/static-file.js';
import type { LiveCampaign } from './live-campaigns.js';
import type { ReadinessCheck } from './readiness.js';
import { SaleMetrics } from './sale-metrics.js';

const METRICS_EVERY_MS = 1_000;
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';
const zip = promisify(gzip);

const ops = { tag: 'operations', caller: 'anyone' } as const;

const readyData = z
  .object({
    status: z.enum(['ready', 'not_ready']),
    checks: z.record(z.string(), z.object({ ok: z.boolean(), detail: z.string() })),
    degraded: z.array(z.string()).describe('checks that fail, and queues that are full as `queue <name>`'),
  })
  .meta({ id: 'Readiness' });

export type OpsDeps = {
  readiness: ReadinessCheck;
  metrics: Metrics;
  store: MetricsStore;
  clock: RedisClock;
  processName: string;
  /** The live campaigns of the shards that can be read. */
  readCampaigns: () => Promise<LiveCampaign[]>;
  log: Log;
};

const countOf = (names: readonly string[], prefix: string): number =>
  names.filter((name) => name.startsWith(prefix)).length;

/** /livez, /readyz, /metrics. */
export function opsRoutes(deps: OpsDeps): Route[] {
  const { readiness, metrics, store, clock, processName, readCampaigns, log } = deps;
  const sale = new SaleMetrics();
  // Computed at most once a second for all callers: it blocks the event loop for milliseconds, and the call needs no
  // key.
  const metricsText = new Recent(async () => {
    const others = await store.others(processName, clock.nowMs()).catch((error: unknown) => {
      log.warn({ err: error }, 'metrics of other processes could not be read');
      return null;
    });
    const names = others && [processName, ...others.keys()];
    const processes = names && { api: countOf(names, 'api-'), worker: countOf(names, 'worker-') };
    const sums = await metrics.textWith([...(others?.values() ?? [])]);
    const text = sums + (await sale.text({ campaigns: await readCampaigns(), processes }));
    const plain = Buffer.from(text);
    return { plain, zipped: await zip(plain) };
  }, METRICS_EVERY_MS);
  return [
    defineRoute(
      {
        ...ops,
        operationId: 'getLiveness',
        method: 'get',
        path: '/livez',
        summary: 'Whether the process is alive',
        answers: { 200: { description: 'The process is alive.', data: z.object({ status: z.literal('alive') }) } },
        errors: [],
      },
      (call) => call.reply(200, { status: 'alive' }),
    ),
    defineRoute(
      {
        ...ops,
        operationId: 'getReadiness',
        method: 'get',
        path: '/readyz',
        summary: 'Whether the process can serve requests',
        answers: {
          200: { description: 'The process can serve requests.', data: readyData },
          503: {
            description: 'The process cannot serve requests; `checks` contains the reason.',
            data: readyData,
            example: {
              status: 'not_ready',
              checks: { redis: { ok: false, detail: 'does not answer' }, postgres: { ok: true, detail: 'answers' } },
              degraded: ['redis'],
            },
            headers: ['Retry-After'],
          },
        },
        errors: [],
      },
      async (call) => {
        const { ready, checks, degraded } = await readiness.run();
        if (ready) call.reply(200, { status: 'ready', checks, degraded });
        else call.reply(503, { status: 'not_ready', checks, degraded }, ['Retry-After', '1']);
      },
    ),
    defineRoute(
      {
        ...ops,
        operationId: 'getMetrics',
        method: 'get',
        path: '/metrics',
        summary: 'Prometheus metrics of all processes',
        description: 'Computed at most once a second. With `OPS_PORT` it is on that port alone.',
        answers: {
          200: {
            description: 'Text exposition format. Names start with `doorbuster_`.',
            contentTypes: ['text/plain'],
          },
        },
        guards: ['document_quota'],
        errors: [],
      },
      async (call) => {
        const { req, res } = call;
        const { plain, zipped } = await metricsText.get();
        const zips = accepts(req, 'gzip');
        const body = zips ? zipped : plain;
        call.begin(200, [
          ...[...API_HEADERS, 'Content-Type', METRICS_TYPE, ...(zips ? ['Content-Encoding', 'gzip'] : [])],
          ...['Vary', 'Accept-Encoding', 'Content-Length', String(body.length)],
          ...['Cache-Control', 'no-store', 'X-Request-Id', req.requestId],
        ]);
        res.end(body);
      },
    ),
  ];
}
