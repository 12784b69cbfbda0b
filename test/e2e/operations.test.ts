import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, send } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { ADMIN_SECRET, startApiProcess, startService } from '../harness/service.js';
import { arrive, checkoutInTurn, gatherShoppers } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

// The pages for machines and operators, and how a request is found in the log.

const service = await startService();
const operator = new Operator(service.url);

/** For requests to a process that listens no more. */
function nullIfClosed(error: unknown): null {
  // What fetch throws without a response.
  if (error instanceof TypeError) return null;
  throw error;
}

const get = (path: string) => send(`${service.url}${path}`);

test('/livez and /readyz return 200 while everything works', async () => {
  expect((await get('/livez')).status).toBe(200);
  const ready = await get('/readyz');
  expect([ready.status, ready.data.status]).toEqual([200, 'ready']);
  expect(Object.keys(ready.data.checks as object).sort()).toEqual([
    'draining',
    'journal',
    'load',
    'postgres',
    'queues',
    'redis',
    'scripts',
  ]);
});

test('/readyz goes first when a process stops', async () => {
  const ask = async (url: string) => {
    const draining = await until('it drains', async () => {
      const answer = await send(`${url}/readyz`);
      return answer.status === 503 ? answer : null;
    });
    return { draining, live: await send(`${url}/livez`) };
  };
  // It drains for half a second. A busy machine may ask too late, and needs another process.
  const { draining, live } = await until('a process is asked while it drains', async () => {
    const { url, process: api } = await startApiProcess(service.env);
    const [asked] = await Promise.all([ask(url).catch(nullIfClosed), api.stop()]);
    return asked;
  });
  expect(draining.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(live.status).toBe(200);
});

test('/metrics is Prometheus text with the prefix of ours, and counts', async () => {
  const product = await operator.openCampaign({ total_limit: 1 });
  const counted = async (outcome: string) => {
    const text = await metricsText(service.url);
    return Number(
      new RegExp(`^doorbuster_\\w*checkout\\w*\\{[^}]*outcome="${outcome}"[^}]*\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0,
    );
  };
  const before = [await counted('completed'), await counted('sold_out')];
  await checkoutInTurn(gatherShoppers(service.url, product, 3));
  expect([await counted('completed'), await counted('sold_out')]).toEqual([
    Number(before[0]) + 1,
    Number(before[1]) + 2,
  ]);
  const { headers, text } = await get('/metrics');
  expect(headers.get('content-type')).toMatch(/^text\/plain/);
  const names = text
    .split('\n')
    .filter((line) => line && !line.startsWith('#'))
    .map((line) => line.split(/[{ ]/)[0]);
  expect(names.filter((name) => !String(name).startsWith('doorbuster_'))).toEqual([]);
  expect(names).toEqual(
    expect.arrayContaining(['doorbuster_nodejs_eventloop_lag_p99_seconds', 'doorbuster_process_cpu_seconds_total']),
  );
  // Never a label that grows with the number of people or requests.
  expect(text).not.toMatch(/user-|user_id|reservation_id/);
});

test('/metrics counts how often terms of a campaign were in memory', async () => {
  const code = `TERMS${randomUUID().slice(0, 8).toUpperCase()}`;
  await operator.openCampaign({ code, total_limit: 1 });
  const counted = async () => {
    const text = await metricsText(service.url);
    return ['memory', 'postgres'].map((from) =>
      Number(new RegExp(`^doorbuster_terms_lookups_total\\{from="${from}"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0),
    ) as [number, number];
  };
  const check = () => send(`${service.url}/coupons/validate`, { method: 'POST', json: { code, user_id: 'ann' } });
  const [memory, postgres] = await counted();
  for (let times = 0; times < 10; times += 1) expect((await check()).status).toBe(200);
  const [memoryAfter, postgresAfter] = await counted();
  // A minute may pass on a busy machine, and the terms are read again.
  expect(memoryAfter - memory).toBeGreaterThanOrEqual(5);
  expect(postgresAfter - postgres).toBeGreaterThanOrEqual(1);
  expect(postgresAfter - postgres).toBeLessThanOrEqual(5);
});

test('/metrics, /readyz and the documents cost a thousand callers no more than a few', async () => {
  const redisCalls = async () =>
    Number(/total_commands_processed:(\d+)/.exec(await service.redis.client.info('stats'))?.[1]);
  const commandsBefore = await redisCalls();
  const answers = await Promise.all(Array.from({ length: 300 }, () => Promise.all([get('/metrics'), get('/readyz')])));
  expect(answers.flat().filter(({ status }) => status !== 200)).toEqual([]);
  // 71 and 35 commands each, when each caller had its own.
  expect((await redisCalls()) - commandsBefore).toBeLessThan(10_000);
});

test('the documents are compressed once, and known by their ETag', async () => {
  for (const path of ['/openapi.json', '/asyncapi.json', '/docs', '/docs/swagger-ui-bundle.js', '/metrics']) {
    const zipped = await fetch(`${service.url}${path}`, { headers: { 'accept-encoding': 'gzip' } });
    expect([path, zipped.status, zipped.headers.get('content-encoding')]).toEqual([path, 200, 'gzip']);
    const text = await zipped.text();
    if (path === '/metrics') continue;
    const plain = await fetch(`${service.url}${path}`, { headers: { 'accept-encoding': 'identity' } });
    expect([plain.headers.get('content-encoding'), (await plain.text()) === text]).toEqual([null, true]);
    const etag = String(plain.headers.get('etag'));
    const again = await fetch(`${service.url}${path}`, { headers: { 'if-none-match': etag } });
    expect([path, again.status, await again.text()]).toEqual([path, 304, '']);
  }
});

test('OPS_PORT takes metrics, health and the operators’ pages to a listener of their own', async () => {
  const { url, process: api } = await startApiProcess({ ...service.env, OPS_PORT: '0' });
  const ops = String(/"ops_url":"([^"]+)"/.exec(api.log.join('\n'))?.[1]);
  const statusOf = async (path: string) => {
    const admin = { headers: { authorization: `Bearer ${ADMIN_SECRET}` }, redirect: 'manual' as const };
    return [(await send(`${url}${path}`, admin)).status, (await send(`${ops}${path}`, admin)).status];
  };
  expect(await statusOf('/metrics')).toEqual([404, 200]);
  expect(await statusOf('/admin/queues')).toEqual([404, 200]);
  expect(await statusOf('/admin/queues/api/queues')).toEqual([404, 200]);
  for (const path of ['/livez', '/readyz', '/admin', '/admin/campaigns']) {
    expect([path, ...(await statusOf(path))]).toEqual([path, 200, 200]);
  }
  for (const path of ['/flash-sale/campaign?product_id=x', '/flash-sale/token?device_fp=x', '/docs', '/openapi.json']) {
    expect([path, (await statusOf(path))[1]]).toEqual([path, 404]);
  }
  const { paths } = (await send(`${url}/openapi.json`)).body;
  expect(Object.keys(paths).filter((path) => /^\/metrics|^\/admin\/queues/.test(path))).toEqual([]);
  await api.stop();
  await expect(fetch(`${ops}/livez`)).rejects.toThrow();
});

test('/openapi.json describes every route of the contract that this version has', async () => {
  const { body } = await get('/openapi.json');
  expect(body.openapi).toMatch(/^3\.1/);
  const routes = Object.entries(body.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(routes).toEqual(
    expect.arrayContaining([
      'GET /flash-sale/token',
      'POST /flash-sale/token',
      'POST /flash-sale/checkout',
      'POST /flash-sale/confirm',
      'POST /flash-sale/release',
      'POST /flash-sale/refund',
      'GET /flash-sale/queue-status',
      'DELETE /flash-sale/queue',
      'POST /admin/campaigns',
      'GET /admin/campaigns',
      'GET /admin/campaigns/{id}',
      'PATCH /admin/campaigns/{id}',
      ...['open', 'pause', 'resume', 'close', 'stock'].map((action) => `POST /admin/campaigns/{id}/${action}`),
      ...['stats', 'redemptions'].map((part) => `GET /admin/campaigns/{id}/${part}`),
      ...['POST /admin/bans', 'GET /admin/bans', 'DELETE /admin/bans/{id}'],
      ...['livez', 'readyz', 'metrics'].map((path) => `GET /${path}`),
    ]),
  );
  // Every answer that a route can give is described.
  for (const methods of Object.values(body.paths as Record<string, Record<string, { responses: object }>>)) {
    for (const { responses } of Object.values(methods)) expect(Object.keys(responses).length).toBeGreaterThan(0);
  }
});

test('/docs is a page that loads everything from this server', async () => {
  const page = await get('/docs');
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  const parts = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => String(path));
  expect(parts.length).toBeGreaterThan(2);
  for (const path of parts) {
    expect(path).toMatch(/^\/docs\//);
    expect([path, (await get(path)).status]).toEqual([path, 200]);
  }
  for (const path of ['/docs/package.json', '/docs/..%2Fpackage.json', '/docs/constructor', '/docs/__proto__']) {
    expectProblem(await get(path), 404, 'not_found');
  }
});

test('every answer names its request: the id that was sent if it is safe, else a new one', async () => {
  const idOf = async (path: string, id: string) =>
    (
      await send(`${service.url}${path}`, {
        headers: { 'x-request-id': id, authorization: `Bearer ${ADMIN_SECRET}` },
      })
    ).headers.get('x-request-id');
  const paths = [
    '/livez',
    '/metrics',
    '/openapi.json',
    '/docs',
    '/docs/start.js',
    '/no-such-path',
    '/flash-sale/token',
    '/flash-sale/queue-status',
    '/admin/campaigns',
  ];
  for (const path of paths) {
    expect([path, await idOf(path, 'my-request.1')]).toEqual([path, 'my-request.1']);
    for (const unsafe of ['with space', 'a/b', 'x'.repeat(129), '"quoted"']) {
      expect([path, await idOf(path, unsafe)]).toEqual([path, expect.stringMatching(/^[A-Za-z0-9._:-]{8,128}$/)]);
    }
  }
  expect(await idOf('/livez', 'x'.repeat(128))).toBe('x'.repeat(128));
});

test('the instance of a refused checkout is found again in the log', async () => {
  await expectLogged('POST', '/flash-sale/checkout', {});
});

test('the instance of any other problem is found again in the log', async () => {
  await expectLogged('GET', '/no-such-path');
  await expectLogged('PUT', '/livez');
  await expectLogged('GET', '/admin/campaigns');
  await expectLogged('GET', '/flash-sale/token?device_fp=');
  await expectLogged('GET', '/flash-sale/queue-status?product_id=none&user_id=nobody');
  await expectLogged('POST', '/flash-sale/confirm', {});
});

/** Checks that a request is refused, and that its instance is in the log of the API. */
async function expectLogged(method: string, path: string, json?: unknown): Promise<void> {
  const headers = { 'x-request-id': `find-me-${randomUUID()}` };
  const { status, body } = await send(`${service.url}${path}`, { method, headers, ...(json ? { json } : {}) });
  expect(Math.floor(status / 100)).toBe(4);
  const id = String(String(body.instance).split(':').at(-1));
  expect(id).toBe(headers['x-request-id']);
  await until(`the log has ${method} ${path}`, () => service.api.log.some((line) => line.includes(id)));
}

test('a traceparent is carried into the log and to the row of what it did', async () => {
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900 });
  const shopper = arrive(service.url, product);
  const traceparent = `00-${randomUUID().replaceAll('-', '')}-00f067aa0ba902b7-01`;
  const json = { product_id: product, user_id: shopper.user, qty: 1, ...shopper.token, idempotency_key: randomUUID() };
  const bought = await send(`${service.url}/flash-sale/checkout`, { method: 'POST', headers: { traceparent }, json });
  const { rows } = await until('the row exists', async () => {
    const found = await service.database.client.query<{ trace: string }>(
      'select trace from redemptions where redemption_id = $1',
      [bought.data.reservation_id],
    );
    return found.rows.length > 0 ? found : null;
  });
  expect(rows).toEqual([{ trace: traceparent }]);
  await until('the log has it', () => service.api.log.some((line) => line.includes(traceparent)));
});
