import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { EngineProxy } from '../harness/proxy.js';
import { sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** What an API does while it, Redis or Postgres is near its limit. */
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

/** An API for which Redis needs a quarter of a second for each call, which is far above its share of the limit. */
const proxy = await EngineProxy.before(Number(new URL(service.redis.url).port), 120);
const REDIS_URL = service.redis.url.replace(/:\d+/, `:${proxy.port}`);
const { url: slow } = await startApiProcess({ ...service.env, REDIS_URL, DEGRADE_AT: '5' });
const readiness = async (url: string) => (await send(`${url}/readyz`)).data as Record<string, any>;
const ALL = 'off: positions, status, validate';
const allIsOff = () => until('all is switched off', async () => (await readiness(slow)).checks.load.detail === ALL);

describe('an API whose Redis is slow', () => {
  test('says what it has switched off, is ready, and shows it to operators', async () => {
    await allIsOff();
    const { status, degraded } = await readiness(slow);
    expect([status, degraded]).toEqual(['ready', ['load']]);
    expect((await readiness(service.url)).checks.load).toEqual({ ok: true, detail: 'everything is on' });
    const overview = (url: string) => new Operator(url).call('GET', '/admin/overview');
    expect((await overview(slow)).data.switched_off).toEqual(['positions', 'status', 'validate']);
    expect((await overview(service.url)).data.switched_off).toEqual([]);
    // Of the process that has switched off most.
    const level = /^doorbuster_degraded_level 3$/m;
    await until('the metrics have it', async () => level.test(await metricsText(service.url)));
  });

  test('lets shoppers poll less often, and hides no promotion', async () => {
    const product = await operator.openCampaign({
      ...{ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } },
    });
    const held = String((await arrive(service.url, product).checkout()).data.reservation_id);
    const waiting = arrive(service.url, product);
    expect((await waiting.checkout()).status).toBe(202);
    await allIsOff();
    const statusAt = (url: string, user: string, headers: Record<string, string> = {}) =>
      send(`${url}/flash-sale/queue-status?product_id=${product}&user_id=${user}`, { headers });
    expect((await statusAt(service.url, 'stranger')).data.poll_after_seconds).toBe(30);
    expect((await statusAt(slow, 'stranger')).data.poll_after_seconds).toBe(60);
    // The head of the line.
    const ticket = { 'x-ticket': String(waiting.ticket) };
    for (const headers of [{}, {}, ticket]) {
      const { data } = await statusAt(slow, waiting.user, headers);
      expect(data).toMatchObject({ position: 1, poll_after_seconds: 2 });
    }
    await payments.release(held);
    const isPromoted = async () => (await statusAt(service.url, waiting.user)).data.status === 'promoted';
    await until('the user is promoted', isPromoted);
    for (const headers of [{}, ticket])
      expect((await statusAt(slow, waiting.user, headers)).data.status).toBe('promoted');
  });

  test('validates no codes, and goes on with checkouts and redemptions', async () => {
    const code = `SLOW${randomUUID().slice(0, 8).toUpperCase()}`;
    const product = await operator.openCampaign({ total_limit: 9, code });
    await allIsOff();
    const validate = (to: string) =>
      send(`${to}/coupons/validate`, { method: 'POST', json: { code, user_id: `user-${randomUUID()}` } });
    const refused = await validate(slow);
    expectProblem(refused, 503, 'temporarily_unavailable');
    expect(refused.headers.get('retry-after')).not.toBeNull();
    expect((await validate(service.url)).status).toBe(200);
    await until('a checkout is served', async () => (await arrive(slow, product).checkout()).status === 200);
  });
});

test('an API whose Postgres is away reads nothing from it for a moment, and then again', async () => {
  const proxy = await EngineProxy.before(Number(new URL(service.database.url).port));
  const DATABASE_URL = service.database.url.replace(/:\d+\//, `:${proxy.port}/`);
  const { url } = await startApiProcess({ ...service.env, DATABASE_URL });
  const codes = Array.from({ length: 8 }, () => `AWAY${randomUUID().slice(0, 8).toUpperCase()}`);
  for (const code of codes) await operator.openCampaign({ total_limit: 10, code });
  const validate = (code: string) =>
    send(`${url}/coupons/validate`, { method: 'POST', json: { code, user_id: `user-${randomUUID()}` } });
  const known = String(codes[0]);
  await until('it knows a code', async () => (await validate(known)).status === 200);
  await proxy.swallow();
  const isOpen = async (state: 0 | 1) => (await metricsText(url)).includes(`doorbuster_postgres_breaker_open ${state}`);
  await until('the breaker is open', async () => {
    await Promise.all(codes.slice(1).map(validate));
    return isOpen(1);
  });
  expectProblem(await validate(String(codes[1])), 503, 'temporarily_unavailable');
  expect((await validate(known)).status).toBe(200);
  await proxy.heal();
  await until('it reads again', async () => (await validate(String(codes[1]))).status === 200);
  expect(await isOpen(0)).toBe(true);
});
