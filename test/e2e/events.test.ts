import { expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { keys } from '../../shared/redis/keys.js';
import { Operator, PaymentService, Shopper } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { startReceiver } from '../harness/receiver.js';
import { startApiProcess, startService } from '../harness/service.js';
import { until } from '../harness/until.js';

const service = await startService({
  WEBHOOK_ALLOW_PRIVATE: '1',
  EVENT_SOURCE: '/shop-7',
  // No broker listens there: sales, the stream and webhooks do without Kafka.
  KAFKA_BROKERS: '127.0.0.1:1',
});
const operator = new Operator(service.url);
const receiver = await startReceiver();
const hooks = (method: string, path = '', json?: unknown) => operator.call(method, `/admin/webhooks${path}`, json);

async function sell(): Promise<string> {
  const product = await operator.openCampaign({
    total_limit: 5,
    hold_seconds: 60,
    discount: { kind: 'percent', percent: 30 },
  });
  const answer = await new Shopper(service.url, product).checkout();
  expect(answer.status).toBe(200);
  await new PaymentService(service.url).confirm(answer.data.reservation_id, 'pay-1');
  return answer.data.reservation_id;
}

test('sales are published to the stream and to a webhook, signed and in order; an operator reads and replays them', async () => {
  const created = await hooks('POST', '', { url: receiver.url });
  expect(created.status).toBe(201);
  const { id, secrets } = created.data;
  expect(created.headers.get('location')).toBe(`/admin/webhooks/${id}`);
  const reservation = await sell();
  await until('the webhook has come', () => receiver.accepted().length >= 2);
  expect(receiver.received.map(({ event }) => [event.type, event.subject, event.source])).toEqual([
    ['dev.doorbuster.redemption.reserved.v1', reservation, '/shop-7'],
    ['dev.doorbuster.redemption.redeemed.v1', reservation, '/shop-7'],
  ]);
  for (const { text, headers, event } of receiver.received) {
    expect(new Webhook(secrets[0]).verify(text, headers as Record<string, string>)).toEqual(event);
  }
  const entries = await until('the stream has them too', async () => {
    const published = await service.redis.client.xrange(keys.events, '-', '+');
    return published.length >= receiver.received.length && published;
  });
  expect(entries.map((entry) => JSON.parse(entry[1][7] as string))).toEqual(
    receiver.received.map(({ event }) => event),
  );

  const heard = await until('it is known how far it is', async () => {
    const { data } = await hooks('GET', `/${id}`);
    return data.deliveries.backlog === 0 && data;
  });
  expect(heard).toEqual({
    id,
    url: receiver.url,
    types: null,
    campaigns: null,
    secret_count: 1,
    enabled: true,
    disabled_reason: null,
    created_at: expect.any(String),
    deliveries: {
      backlog: 0,
      parked: 0,
      replays: 0,
      last_delivered_at: expect.any(String),
      failed_attempts: 0,
      failing_since: null,
      next_attempt_at: null,
      last_error: null,
    },
  });
  expect((await hooks('GET')).data).toEqual([heard]);

  const [first, second] = receiver.accepted();
  expect((await hooks('POST', `/${id}/replay`, { event_id: second })).data).toEqual({ events: 1 });
  await until('it was delivered again', () => receiver.received.length === 3);
  const range = { from: new Date(Date.now() - 60_000).toISOString(), to: new Date(Date.now() + 60_000).toISOString() };
  expect(await hooks('POST', `/${id}/replay`, range)).toMatchObject({ status: 202, data: { events: 2 } });
  await until('both were delivered again', () => receiver.received.length === 5);
  expect(receiver.accepted()).toEqual([first, second, second, first, second]);
  expect((await hooks('DELETE', `/${id}`)).status).toBe(200);
  expect((await hooks('GET', `/${id}`)).body.code).toBe('webhook_not_found');
});

test('an endpoint that answers 410 is disabled until an operator enables it; retries go by themselves', async () => {
  const hasGone = (count: number) => async () =>
    (await metricsText(service.url)).includes(`doorbuster_webhook_deliveries_total{outcome="gone"} ${count}\n`);
  // The alert needs the series before its first increase.
  await until('the metric exists', hasGone(0));
  receiver.received.length = 0;
  const { id } = (await hooks('POST', '', { url: receiver.url, types: ['dev.doorbuster.redemption.reserved.v1'] }))
    .data;
  let failures = 0;
  receiver.answer = () => {
    failures += 1;
    return failures === 1 ? 503 : 410;
  };
  const reservation = await sell();
  const gone = await until('it is disabled', async () => {
    const { data } = await hooks('GET', `/${id}`);
    return !data.enabled && data;
  });
  expect(gone).toMatchObject({
    disabled_reason: 'it responded with 410 Gone',
    deliveries: { backlog: 1, failed_attempts: 1 },
  });
  await until('the metric counts it', hasGone(1));
  expect((await hooks('POST', `/${id}/replay`, { event_id: receiver.received[0]?.event.id })).body.code).toBe(
    'webhook_disabled',
  );
  receiver.answer = () => 200;
  expect((await hooks('PATCH', `/${id}`, { enabled: true })).data).toMatchObject({
    enabled: true,
    disabled_reason: null,
  });
  await until('it was delivered', () => receiver.accepted().length === 1);
  expect(receiver.received.map(({ event, answer }) => [event.subject, answer])).toEqual([
    [reservation, 503],
    [reservation, 410],
    [reservation, 200],
  ]);
  await hooks('DELETE', `/${id}`);
});

test('actions of an operator are in the audit log without secrets, and secrets are shown once', async () => {
  const secret = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;
  const { id, secrets } = (await hooks('POST', '', { url: receiver.url, secrets: [secret] })).data;
  expect(secrets).toEqual([secret]);
  const changed = await hooks('PATCH', `/${id}`, {
    secrets: [`whsec_${Buffer.alloc(32, 4).toString('base64')}`, secret],
  });
  expect(changed.data).toMatchObject({ secret_count: 2 });
  await hooks('DELETE', `/${id}`);
  const { rows } = await service.database.client.query(
    "select action, actor, after from audit_log where coalesce(after, before) ->> 'endpoint_id' = $1 order by audit_id",
    [id],
  );
  expect(rows).toEqual([
    {
      action: 'webhook.create',
      actor: 'tester',
      after: { endpoint_id: id, url: receiver.url, types: null, campaigns: null, enabled: true, secret_count: 1 },
    },
    {
      action: 'webhook.change',
      actor: 'tester',
      after: {
        endpoint_id: id,
        url: receiver.url,
        types: null,
        campaigns: null,
        enabled: true,
        secret_count: 2,
        secrets_changed: true,
      },
    },
    { action: 'webhook.remove', actor: 'tester', after: null },
  ]);
  expect(changed.text + JSON.stringify(rows)).not.toContain('whsec_');
});

test('the webhook API refuses what is no endpoint, and by default every private address', async () => {
  const refused = async (json: unknown) => {
    const { status, body } = await hooks('POST', '', json);
    return [status, body.code, body.errors?.[0]?.pointer];
  };
  for (const wrong of ['shop', 'http://127.0.0.1/\0', 'http://127.0.0.1/\ud800'])
    expect([wrong, ...(await refused({ url: wrong }))]).toEqual([wrong, 400, 'invalid_request', '#/url']);
  expect(await refused({ url: 'https://shop.example', secrets: ['whsec_short'] })).toEqual([
    400,
    'invalid_request',
    '#/secrets/0',
  ]);
  expect(await refused({ url: 'https://shop.example', types: ['dev.doorbuster.other.v1'] })).toEqual([
    400,
    'invalid_request',
    '#/types/0',
  ]);
  const { url } = await startApiProcess({ ...service.env, WEBHOOK_ALLOW_PRIVATE: '0' });
  const cautious = new Operator(url);
  for (const host of ['127.0.0.1', '2130706433', '[::ffff:10.0.0.1]', '169.254.169.254']) {
    const answer = await cautious.call('POST', '/admin/webhooks', { url: `http://${host}/` });
    expect([answer.status, answer.body.errors]).toEqual([
      400,
      [{ pointer: '#/url', detail: 'must not be a private address' }],
    ]);
  }
  const { id } = (await cautious.call('POST', '/admin/webhooks', { url: 'https://1.1.1.1/' })).data;
  expect((await cautious.call('PATCH', `/admin/webhooks/${id}`, { url: 'http://10.0.0.1/' })).status).toBe(400);
  expect(
    (
      await cautious.call('POST', `/admin/webhooks/${id}/replay`, {
        from: '2026-01-02T00:00:00Z',
        to: '2026-01-01T00:00:00Z',
      })
    ).status,
  ).toBe(400);
  expect((await cautious.call('POST', `/admin/webhooks/${id}/replay`, { event_id: id })).body.code).toBe(
    'event_not_found',
  );
  await hooks('DELETE', `/${id}`);
});

test('only operators may', async () => {
  const path = '/admin/webhooks';
  const as = (secret: string) => operator.call('GET', path, undefined, { authorization: `Bearer ${secret}` });
  expect((await as('nobody-knows-this-secret')).status).toBe(401);
  expect((await as('service-secret-of-the-tests')).status).toBe(403);
});

test('readiness and metrics report a Kafka that is away, and the process stays ready', async () => {
  const kafka = await until('readiness reports it', async () => {
    const answer = await fetch(`${service.url}/readyz`);
    const { data } = (await answer.json()) as { data: { checks: Record<string, { ok: boolean; detail: string }> } };
    return answer.status === 200 && data.checks.kafka?.detail.includes('since') && data.checks.kafka;
  });
  expect(kafka).toEqual({
    ok: false,
    detail: expect.stringMatching(/^receives nothing since .*; events are kept for it$/),
  });
  await until('the metrics count it', async () =>
    /^doorbuster_kafka_failures_total\{reason="connection"\} [1-9]/m.test(await metricsText(service.url)),
  );
});

test('an operator tests an endpoint, and reads why events were rejected', async () => {
  const mine = await startReceiver();
  const created = await hooks('POST', '', { url: mine.url });
  const { id, secrets } = created.data;
  const tested = await hooks('POST', `/${id}/test`);
  expect([tested.status, tested.data]).toEqual([
    200,
    {
      event_id: mine.received[0]?.event.id,
      type: 'dev.doorbuster.webhook.test.v1',
      delivered: true,
      status: 204,
      error: null,
      duration_ms: expect.any(Number),
    },
  ]);
  const [{ text, headers }] = mine.received as [(typeof mine.received)[0]];
  expect(new Webhook(secrets[0]).verify(text, headers as Record<string, string>)).toMatchObject({
    data: { endpoint_id: id },
  });

  mine.answer = () => 422;
  const reservation = await sell();
  const state = await until('the events of the reservation are parked', async () => {
    const { data } = await hooks('GET', `/${id}`);
    return data.deliveries.parked === 2 && data.deliveries.backlog === 2 && data;
  });
  expect(state).toMatchObject({ enabled: true, deliveries: { backlog: 2, last_error: 'it responded with 422' } });
  const attempts = await hooks('GET', `/${id}/attempts?delivered=false&limit=1`);
  expect(attempts.data).toEqual([
    expect.objectContaining({ subject: reservation, delivered: false, status: 422, error: 'it responded with 422' }),
  ]);
  expect(attempts.headers.get('link')).toMatch(/attempts\?limit=1&cursor=\d+&delivered=false>; rel="next"$/);
  const all = await hooks('GET', `/${id}/attempts`);
  expect(all.data.at(-1)).toMatchObject({ type: 'dev.doorbuster.webhook.test.v1', delivered: true });
  mine.answer = () => 200;
  // Any change retries at once.
  await hooks('PATCH', `/${id}`, { enabled: true });
  await until('both came', () => mine.accepted().length === 3);
  await hooks('DELETE', `/${id}`);
  expect((await hooks('POST', `/${id}/test`)).body.code).toBe('webhook_not_found');
  expect((await hooks('GET', `/${id}/attempts`)).body.code).toBe('webhook_not_found');
});

test('an endpoint gets the events of the campaigns that it names', async () => {
  const mine = await startReceiver();
  const product = await operator.openCampaign({ total_limit: 5 });
  const { data: campaign } = await operator.call('GET', `/admin/campaigns/${product}`);
  const created = await hooks('POST', '', { url: mine.url, campaigns: [product] });
  expect([created.status, created.data.campaigns]).toEqual([201, [campaign.id]]);
  await sell();
  const answer = await new Shopper(service.url, product).checkout();
  await until('its event came', () => mine.accepted().length === 1);
  expect(mine.received[0]?.event.subject).toBe(answer.data.reservation_id);
  expect((await hooks('POST', '', { url: mine.url, campaigns: ['none'] })).body).toMatchObject({
    code: 'invalid_request',
    errors: [{ pointer: '#/campaigns/0', detail: 'no campaign has this id or product id' }],
  });
  expect((await hooks('PATCH', `/${created.data.id}`, { campaigns: null })).data.campaigns).toBe(null);
  await hooks('DELETE', `/${created.data.id}`);
});

test('a name that leads to a private address is refused at once; in development it is allowed', async () => {
  const create = async (env: NodeJS.ProcessEnv, url: string) => {
    const { WEBHOOK_ALLOW_PRIVATE: _, ...rest } = service.env;
    const { url: api, process: started } = await startApiProcess({ ...rest, ...env });
    const answer = await new Operator(api).call('POST', '/admin/webhooks', { url });
    await started.stop();
    if (answer.status === 201) await hooks('DELETE', `/${answer.data.id}`);
    return [answer.status, answer.body.errors?.[0]?.detail];
  };
  const local = receiver.url.replace('127.0.0.1', 'localhost');
  expect(await create({}, local)).toEqual([400, 'localhost resolves to a private address. Use a public one']);
  expect(await create({ NODE_ENV: 'development' }, local)).toEqual([201, undefined]);
  expect(await create({ NODE_ENV: 'development', WEBHOOK_ALLOW_PRIVATE: '0' }, receiver.url)).toEqual([
    400,
    'must not be a private address',
  ]);
});
