import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from '@jest/globals';
import { Operator, PaymentService, Shopper } from '../harness/clients.js';
import { startReceiver } from '../harness/receiver.js';
import { type Service, startApiProcess, startService, startWorkerProcess } from '../harness/service.js';
import { type ReceivedSpan, startSpanReceiver } from '../harness/span-receiver.js';
import { until } from '../harness/until.js';

const collector = await startSpanReceiver();
const service = await startService({
  WEBHOOK_ALLOW_PRIVATE: '1',
  OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
  OTEL_EXPORTER_OTLP_HEADERS: 'x-api-key=secret%20of%20the%20collector',
  OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=staging',
});
const operator = new Operator(service.url);
const shop = await startReceiver();
await operator.call('POST', '/admin/webhooks', { url: `${shop.url}?key=secret-of-the-shop` });

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER = '00f067aa0ba902b7';

beforeEach(() => {
  collector.status = 200;
});

/** The spans of a trace by name, when all of these have come. */
async function traceWith(traceId: string, names: readonly string[]): Promise<Map<string, ReceivedSpan>> {
  return until(`the trace has ${names.join(', ')}`, () => {
    const spans = new Map(collector.inTrace(traceId).map((span) => [span.name, span]));
    return names.every((name) => spans.has(name)) && spans;
  });
}

const sell = async (url: string, flags: string, traceId = TRACE) => {
  const product = await new Operator(url).openCampaign({ total_limit: 5, hold_seconds: 60 });
  const shopper = new Shopper(url, product);
  const answer = await shopper.checkout({}, { traceparent: `00-${traceId}-${CALLER}-${flags}` });
  expect(answer.status).toBe(200);
  return { product, shopper, reservation: String(answer.data.reservation_id) };
};

test('one trace joins a checkout, its decision, the journal, the event and the webhook over all processes', async () => {
  const { product, shopper, reservation } = await sell(service.url, '01');
  const names = ['POST /flash-sale/checkout', 'reserve', 'persist journal', 'publish events', 'POST webhook'];
  const spans = await traceWith(TRACE, names);
  const [checkout, decision, persisted, published, delivered] = names.map((name) => spans.get(name) as ReceivedSpan);
  if (!checkout || !decision || !persisted || !published || !delivered) throw new Error('a span is missing');

  expect(checkout).toMatchObject({
    parentSpanId: CALLER,
    kind: 2,
    failed: false,
    attributes: {
      'http.request.method': 'POST',
      'http.route': '/flash-sale/checkout',
      'http.response.status_code': 200,
      'url.scheme': 'http',
      'doorbuster.request_id': expect.any(String),
    },
    resource: {
      'service.name': 'doorbuster',
      'service.version': expect.any(String),
      'doorbuster.component': 'api',
      'deployment.environment.name': 'staging',
    },
  });
  for (const span of [decision, persisted, published, delivered]) expect(span.parentSpanId).toBe(checkout.spanId);
  expect(decision).toMatchObject({
    kind: 3,
    attributes: {
      'db.system.name': 'redis',
      'db.stored_procedure.name': 'reserve',
      'doorbuster.campaign': product,
      'doorbuster.outcome': 'reserved',
      'doorbuster.reservation': reservation,
    },
  });
  expect(decision.start >= checkout.start && decision.end <= checkout.end).toBe(true);
  expect(persisted).toMatchObject({
    kind: 5,
    attributes: { 'doorbuster.entry': 'reserved', 'doorbuster.reservation': reservation },
    resource: { 'doorbuster.component': 'worker' },
  });
  expect(published).toMatchObject({
    kind: 4,
    attributes: {
      'messaging.system': 'redis',
      'cloudevents.event_type': 'dev.doorbuster.redemption.reserved.v1',
      'cloudevents.event_subject': reservation,
    },
  });
  expect(delivered).toMatchObject({
    kind: 3,
    failed: false,
    attributes: { 'server.address': '127.0.0.1', 'http.response.status_code': 204 },
  });
  // The shop continues the trace from the span of its delivery; the event names the checkout.
  const received = shop.received.find(({ event }) => event.subject === reservation);
  expect(received?.headers.traceparent).toBe(`00-${TRACE}-${delivered.spanId}-01`);
  expect(received?.event.traceparent).toBe(`00-${TRACE}-${checkout.spanId}-01`);

  // The batch has a span of its own, which is linked with its members in both directions.
  const [link] = persisted.links;
  const batch = await until('the span of the batch has come', () =>
    collector.spans.find(({ spanId }) => spanId === link?.spanId),
  );
  expect(batch).toMatchObject({ name: 'persist journal', parentSpanId: '' });
  expect(batch.links).toContainEqual({ traceId: TRACE, spanId: checkout.spanId });
  expect(batch.traceId).not.toBe(TRACE);

  expect(collector.headers[0]?.['x-api-key']).toBe('secret of the collector');
  const sent = collector.texts.join('\n');
  for (const secret of [shopper.user, shopper.device, String(shopper.ticket), 'secret-of-the-shop', '/hook'])
    expect(sent).not.toContain(secret);
});

test('a payment has a trace of its own without a context of the caller; a refusal is no error', async () => {
  const { reservation } = await sell(service.url, '01', '5bf92f3577b34da6a3ce929d0e0e4736');
  const payments = new PaymentService(service.url);
  expect((await payments.confirm(reservation, 'pay-1')).status).toBe(200);
  expect((await payments.release(reservation)).status).toBe(409);
  const confirm = await until('the confirmation has a span', () =>
    collector.spans.find(({ name }) => name === 'POST /flash-sale/confirm'),
  );
  expect(confirm.parentSpanId).toBe('');
  const spans = await traceWith(confirm.traceId, ['persist journal', 'POST webhook']);
  expect(spans.get('persist journal')?.attributes['doorbuster.entry']).toBe('redeemed');
  const release = await until('the refused release has a span', () =>
    collector.spans.find(({ name }) => name === 'POST /flash-sale/release'),
  );
  expect(release).toMatchObject({ failed: false, attributes: { 'http.response.status_code': 409 } });
});

test('a caller that does not record has no spans, nor have probes', async () => {
  const unrecorded = '6bf92f3577b34da6a3ce929d0e0e4736';
  const { reservation } = await sell(service.url, '00', unrecorded);
  const recorded = '7bf92f3577b34da6a3ce929d0e0e4736';
  await fetch(`${service.url}/readyz`);
  const later = await sell(service.url, '01', recorded);
  // The events are delivered in order, so those of the first checkout would have come.
  await traceWith(recorded, ['POST webhook', 'persist journal']);
  expect(collector.inTrace(unrecorded)).toEqual([]);
  expect(collector.spans.filter(({ name }) => /livez|readyz|metrics/.test(name))).toEqual([]);
  const events = shop.received.filter(({ event }) => [reservation, later.reservation].includes(event.subject));
  expect(events[0]?.event.traceparent).toBe(`00-${unrecorded}-${CALLER}-00`);
});

test('with no share sampled, the context of the caller is passed on as not recorded', async () => {
  const { url } = await startApiProcess({
    ...service.env,
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0',
  });
  const traceId = '8bf92f3577b34da6a3ce929d0e0e4736';
  const { reservation } = await sell(url, '01', traceId);
  const received = await until('the webhook has come', () =>
    shop.received.find(({ event }) => event.subject === reservation),
  );
  expect(received.event.traceparent).toBe(`00-${traceId}-${CALLER}-00`);
  expect(collector.inTrace(traceId)).toEqual([]);
});

test('the sale goes on without the receiver; lost spans are counted, and the processes stop', async () => {
  const { process: api, url } = await startApiProcess({
    ...service.env,
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
  });
  await sell(url, '01');
  await until('it is logged once', () => api.log.some((line) => line.includes('spans could not be sent')));
  const lost = await until('the lost spans are counted', async () => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(/^doorbuster_spans_total\{outcome="failed"\} (\d+)/m.exec(text)?.[1] ?? 0);
  });
  expect(lost).toBeGreaterThan(0);
  await sell(url, '01');
  await api.stop();
  expect(api.child.exitCode).toBe(0);
});

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/**
 * Starts an API and a worker, stops them, and returns which packages of OpenTelemetry they had loaded, except the
 * interfaces, which prom-client loads. In a bundle, a comment names the file of each module.
 */
async function loadedPackages(env: Service['env']): Promise<Set<string>> {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-loaded-'));
  folders.push(folder);
  const [{ process: api }, worker] = await Promise.all([
    startApiProcess({ ...env, NODE_V8_COVERAGE: folder }),
    startWorkerProcess({ ...env, NODE_V8_COVERAGE: folder }),
  ]);
  await Promise.all([api.stop(), worker.stop()]);
  const scripts = readdirSync(folder).flatMap((name) =>
    (JSON.parse(readFileSync(join(folder, name), 'utf8')).result as { url: string }[]).map((script) => script.url),
  );
  expect(scripts.some((script) => script.endsWith('/worker/main.js'))).toBe(true);
  const bundles = scripts
    .filter((script) => /^file:.*\/dist\//.test(script))
    .map((url) => readFileSync(new URL(url), 'utf8'));
  const modules = [...scripts, ...bundles].flatMap((text) => [
    ...text.matchAll(/node_modules\/(@opentelemetry\/(?!api\/)[^/]+)\//g),
  ]);
  return new Set(modules.map(([, name]) => String(name)));
}

test('without a receiver no package of OpenTelemetry is loaded', async () => {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: _, ...env } = service.env;
  expect(await loadedPackages(env)).toEqual(new Set());
  expect(await loadedPackages({ ...service.env, OTEL_SDK_DISABLED: 'true' })).toEqual(new Set());
  expect(await loadedPackages(service.env)).toContain('@opentelemetry/sdk-trace');
});
