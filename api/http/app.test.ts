import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { LIMITS } from '../../shared/config/limits.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { atEnd } from '../../test/harness/cleanup.js';
import { exchangeBytes } from '../../test/harness/raw-http.js';
import { recordingLog } from '../../test/harness/recording-log.js';
import { until } from '../../test/harness/until.js';
import { createApp, createHttpServer, exactRoutes } from './app.js';
import { readJson } from './json-body.js';
import { ProblemEdge } from './problem.js';
import { sendData } from './respond.js';
import type { Route, RouteContract } from './route.js';

/** The HTTP edge on a real port, with minimal routes. */
const route = (method: RouteContract['method'], path: string, handle: Route['handle']): Route => ({
  contract: {
    operationId: 'try',
    method,
    path,
    summary: '',
    tag: 'operations',
    caller: 'anyone',
    answers: {},
    errors: [],
  },
  handle,
});
let [busy, mostBusy] = [0, 0];
let [refusedInTurn, mostRefused] = [0, 0];
let largeServed = 0;
const LARGE = { text: 'x'.repeat(1_000_000) };
const refuse: Route['guard'] = (req, res) => {
  if (req.headers['x-banned'] === undefined) return false;
  if (refusedInTurn === 0)
    setImmediate(() => {
      refusedInTurn = 0;
    });
  refusedInTurn += 1;
  mostRefused = Math.max(mostRefused, refusedInTurn);
  res.writeHead(403).end();
  return true;
};
const NAMES = ['#/qty', '#/campaigns/12/product_id', '#/total_limt'];
const TYPED = [
  'ann@x.example',
  '4111111111111111',
  'sk_live_51H',
  'line\nbreak',
  '\u001b[2J',
  'x'.repeat(5_000),
  '~1etc',
];
const POINTERS = [...NAMES, ...TYPED.map((text) => `#/metadata/${text}`), '#/a/b/c/d/e/f/g/h/i', '#/last'];
const [log, metrics] = [recordingLog(), new Metrics(false)];
const routes = [
  route('get', '/things/:id', (req, res) => sendData(req, res, 200, { id: req.params.id, request: req.requestId })),
  route('post', '/things/:id', async (req, res) =>
    sendData(req, res, 201, { got: await readJson(req) }, ['Location', '/x']),
  ),
  route('post', '/things', async (req, res) => sendData(req, res, 201, { got: await readJson(req), query: req.query })),
  route('post', '/thrown', () => {
    throw new Problem('campaign_paused', 'At once.');
  }),
  route('post', '/rejected', async () => {
    throw new EngineUnavailable('redis', 'connect ECONNREFUSED 10.0.0.1');
  }),
  route('get', '/refused', () => {
    throw new Problem('campaign_paused', 'A detail.', {
      members: { more: 1 },
      headers: { 'X-More': 'yes' },
      retryAfterSeconds: 10,
    });
  }),
  route('get', '/invalid', () => {
    const errors = POINTERS.map((pointer) => ({ pointer, detail: 'must not be ann@x.example' }));
    throw new Problem('invalid_request', 'See errors.', { members: { errors } });
  }),
  route('get', '/broken', async () => {
    throw new Error('secret internals at 10.0.0.1');
  }),
  route('get', '/busy', async (req, res) => {
    busy += 1;
    mostBusy = Math.max(mostBusy, busy);
    // At least as long as a reply of Redis takes.
    await nextTurn();
    await nextTurn();
    busy -= 1;
    sendData(req, res, 200, {});
  }),
  route('get', '/large', (req, res) => {
    largeServed += 1;
    sendData(req, res, 200, LARGE);
  }),
  { ...route('get', '/guarded', (req, res) => sendData(req, res, 200, {})), guard: refuse },
  { ...route('post', '/guarded', (req, res) => sendData(req, res, 200, {})), guard: refuse },
  { ...route('get', '/guarded/:id', (req, res) => sendData(req, res, 200, {})), guard: refuse },
  route('get', '/away', async () => {
    throw new EngineUnavailable('redis', 'connect ECONNREFUSED 10.0.0.1');
  }),
];
let draining = false;
const edge = new ProblemEdge(log, metrics);
const app = createApp(routes, edge, { trustProxy: 0, socketPath: '/socket' });
const server = createHttpServer(app, edge, metrics, () => draining, exactRoutes(routes));
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
atEnd('the server', () => {
  server.closeAllConnections();
  server.close();
});

const ask = async (path: string, init: RequestInit = {}) => {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: text ? JSON.parse(text) : null };
};
const post = (body: string | Uint8Array, headers: Record<string, string> = { 'content-type': 'application/json' }) =>
  ask('/things/1', { method: 'POST', headers, body });

test('answers with data, the request id and the headers of every answer', async () => {
  const answer = await ask('/things/a%20b?x=1', { headers: { 'x-request-id': 'req-1' } });
  expect([answer.status, answer.body]).toEqual([200, { data: { id: 'a b', request: 'req-1' } }]);
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(answer.headers.get('x-request-id')).toBe('req-1');
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  expect(answer.headers.get('x-powered-by')).toBeNull();
});

test('distinguishes paths and methods, and their case', async () => {
  expect(await ask('/nothing')).toMatchObject({ status: 404, body: { code: 'not_found' } });
  expect(await ask('/THINGS/1')).toMatchObject({ status: 404 });
  const wrong = await ask('/things/1', { method: 'DELETE' });
  expect(wrong).toMatchObject({ status: 405, body: { code: 'method_not_allowed' } });
  expect(wrong.headers.get('allow')).toBe('GET, POST, HEAD');
  const head = await ask('/things/1', { method: 'HEAD' });
  expect([head.status, head.text]).toEqual([200, '']);
});

test('says what the path of WebSockets expects', async () => {
  const wrong = await ask('/socket', { method: 'POST' });
  expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'GET']);
  const plain = await ask('/socket');
  expect([plain.status, plain.body.detail]).toEqual([400, expect.stringContaining('WebSocket')]);
});

test('sends a refusal as RFC 9457 defines it', async () => {
  const answer = await ask('/refused', { headers: { 'x-request-id': 'req-2' } });
  expect(answer.headers.get('content-type')).toBe('application/problem+json');
  expect(answer.headers.get('x-more')).toBe('yes');
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(10);
  expect([answer.status, answer.body]).toEqual([
    503,
    {
      type: 'https://doorbuster.dev/errors/campaign_paused',
      title: 'The sale is paused',
      status: 503,
      detail: 'A detail.',
      instance: 'urn:doorbuster:request:req-2',
      code: 'campaign_paused',
      more: 1,
    },
  ]);
});

test('logs which fields were not valid, at most ten, without what the client typed', async () => {
  const answer = await ask('/invalid');
  expect(answer.status).toBe(400);
  const { fields } = log.lines.at(-1) ?? {};
  expect(fields).toMatchObject({ code: 'invalid_request', fields: [...NAMES, ...TYPED.map(() => '#/metadata/…')] });
  await ask('/refused');
  expect(log.lines.at(-1)?.fields).not.toHaveProperty('fields');
});

test('hides internal errors, and logs them in full under the same id', async () => {
  const answer = await ask('/broken', { headers: { 'x-request-id': 'req-3' } });
  expect(answer).toMatchObject({
    status: 500,
    body: { code: 'internal_error', instance: 'urn:doorbuster:request:req-3' },
  });
  expect(answer.text).not.toMatch(/secret|10\.0\.0|Error:|at /);
  expect(log.lines.at(-1)).toMatchObject({
    level: 'error',
    fields: { request_id: 'req-3', err: { message: 'secret internals at 10.0.0.1' } },
  });
});

test('responds with 503 and Retry-After during an outage, which is no bug', async () => {
  const answer = await ask('/away', { headers: { 'x-request-id': 'req-4' } });
  expect(answer).toMatchObject({ status: 503, body: { code: 'temporarily_unavailable' } });
  expect(answer.headers.get('retry-after')).toMatch(/^[12]$/);
  expect(answer.text).not.toContain('ECONNREFUSED');
  expect(log.lines.at(-1)).toMatchObject({ fields: { request_id: 'req-4', engine: 'redis' } });
  expect(log.lines.at(-1)?.level).not.toBe('error');
});

test('responds to the first of a thousand simultaneous requests before it begins the last', async () => {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += chunk;
  });
  socket.write('GET /busy HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(1_000));
  await until('all are answered', () => (text.match(/HTTP\/1\.1 200/g)?.length ?? 0) === 1_000);
  socket.destroy();
  expect(mostBusy).toBeGreaterThan(0);
  expect(mostBusy).toBeLessThanOrEqual(4 * LIMITS.http.requestsPerTurn.requests);
});

test('refusals take turns too', async () => {
  const sockets = Array.from({ length: 100 }, () => connect(port, '127.0.0.1').setEncoding('latin1'));
  let answers = 0;
  for (const socket of sockets)
    socket.on('data', (text) => (answers += String(text).match(/HTTP\/1\.1 /g)?.length ?? 0));
  for (const socket of sockets) socket.write('GET /busy HTTP/1.1\r\nHost: a\r\n\r\n');
  await until('all are accepted', () => answers === sockets.length);
  const each = LIMITS.http.requestsPerConnection;
  for (const socket of sockets) socket.write('GET /guarded HTTP/1.1\r\nHost: a\r\nX-Banned: 1\r\n\r\n'.repeat(each));
  await until('all are refused', () => answers === (1 + each) * sockets.length);
  for (const socket of sockets) socket.destroy();
  expect(mostRefused).toBeGreaterThan(0);
  expect(mostRefused).toBeLessThanOrEqual(4 * LIMITS.http.requestsPerTurn.requests);
});

test('refuses a path that cannot be decoded', async () => {
  expect(await ask('/things/%E0%A4%A')).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
});

test('reads JSON of up to 16 KiB in UTF-8, whatever it is called exactly', async () => {
  expect(await post('{"a":"ü"}')).toMatchObject({ status: 201, body: { data: { got: { a: 'ü' } } } });
  for (const type of [
    'application/json; charset=utf-8',
    'APPLICATION/JSON;charset=UTF-8',
    'application/problem+json',
  ]) {
    expect([type, (await post('7', { 'content-type': type })).status]).toEqual([type, 201]);
  }
  const longest = JSON.stringify('x'.repeat(16 * 1024 - 2));
  expect((await post(longest)).status).toBe(201);
  expect(await post(`${longest} `)).toMatchObject({ status: 413, body: { code: 'body_too_large' } });
});

test('takes the charset in quotation marks, as RFC 9110 has it', async () => {
  expect((await post('7', { 'content-type': 'application/json; charset="utf-8"' })).status).toBe(201);
});

test('refuses what is too long without a declared length too', async () => {
  const endless = new ReadableStream({
    pull(controller) {
      controller.enqueue(new TextEncoder().encode(' '.repeat(4_096)));
    },
  });
  const answer = await ask('/things/1', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: endless,
    duplex: 'half',
  } as RequestInit);
  expect(answer).toMatchObject({ status: 413, body: { code: 'body_too_large' } });
});

test('refuses what is no JSON', async () => {
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonx',
    'application/json; charset=latin1',
  ]) {
    expect([type, (await post('{}', { 'content-type': type })).body.code]).toEqual([type, 'unsupported_media_type']);
  }
  expect((await post('{}', { 'content-type': 'application/json', 'content-encoding': 'gzip' })).body.code).toBe(
    'unsupported_media_type',
  );
  for (const text of ['', '{', '{a:1}', "{'a':1}", '[1,]', 'undefined'])
    expect([text, (await post(text)).body.code]).toEqual([text, 'invalid_json']);
  expect((await post(Buffer.from([0x22, 0xff, 0x22]))).body.code).toBe('invalid_json');
});

/** Sends raw bytes and returns everything that arrives until the connection ends. */
async function raw(text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => (answer += String(chunk)));
  socket.write(text);
  await once(socket, 'close');
  return answer;
}

test('rejects malformed or oversized HTTP with a problem and closes the connection', async () => {
  const nonsense = await raw('GET\r\n\r\n');
  expect(nonsense).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
  expect(JSON.parse(String(nonsense.split('\r\n\r\n')[1]))).toMatchObject({ status: 400, code: 'invalid_request' });
  const headers = await raw(`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`);
  expect(headers).toMatch(/^HTTP\/1\.1 431 /);
});

test('serves a few pipelined requests at a time, and ends a connection whose client does not read', async () => {
  const { timeout } = server;
  server.timeout = 300;
  try {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {
      // The server has reset the connection, as expected.
    });
    socket.pause();
    const before = largeServed;
    socket.write('GET /large HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(2_000));
    await until('the first requests are served', () => largeServed > before);
    const connections = () =>
      new Promise<number>((resolve, reject) =>
        server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
      );
    server.closeIdleConnections();
    await until('the connection is ended', async () => (await connections()) === 0);
    // The responses in the buffers of the kernel, and the limit of requests in flight.
    expect(largeServed - before).toBeLessThan(50);
    socket.destroy();
  } finally {
    server.timeout = timeout;
  }
});

test('answers everything that a client pipelines and reads', async () => {
  // Few enough for a busy machine to serve within the limit for headers, and many times what is served at once.
  const answers = await raw(
    `${'GET /things/1 HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(500)}GET /things/2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  );
  expect(answers.match(/HTTP\/1\.1 200/g)?.length).toBe(501);
  expect(answers.trim().endsWith('}}')).toBe(true);
  expect(answers).toContain('{"data":{"id":"2"');
});

test('closes connections while it stops', async () => {
  expect((await ask('/things/1')).headers.get('connection')).not.toBe('close');
  draining = true;
  expect((await ask('/things/1')).headers.get('connection')).toBe('close');
  draining = false;
});

test('counts every response by its route, never by the requested path', async () => {
  const text = await metrics.registry.metrics();
  const counted = new Set(
    [...text.matchAll(/http_request_duration_seconds_count\{method="(\w+)",route="([^"]+)"\}/g)].map(
      ([, method, route]) => `${method} ${route}`,
    ),
  );
  expect([...counted].sort()).toEqual([
    'DELETE /things/:id',
    'GET /away',
    'GET /broken',
    'GET /busy',
    'GET /invalid',
    'GET /large',
    'GET /refused',
    'GET /socket',
    'GET /things/:id',
    'HEAD /things/:id',
    'POST /socket',
    'POST /things/:id',
    'none none',
  ]);
});

test('an exact path is served like any other: with and without a query, and with sync and async errors', async () => {
  const send = (path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"a":1}',
    });
  const plain = await send('/things');
  expect([plain.status, await plain.json()]).toEqual([201, { data: { got: { a: 1 }, query: {} } }]);
  const queried = await send('/things?x=1');
  expect([queried.status, await queried.json()]).toEqual([201, { data: { got: { a: 1 }, query: { x: '1' } } }]);
  expect((await send('/thrown')).status).toBe(503);
  expect((await send('/rejected')).status).toBe(503);
  expect((await ask('/thrown')).status).toBe(405);
  for (const path of ['/things', '/thrown', '/rejected']) {
    expect(await metrics.registry.metrics()).toContain(`route="${path}"`);
  }
});

test('a path with a trailing slash is another path, which does not exist', async () => {
  for (const path of ['/things/', '/things/1/', '/thrown/', '/busy/']) {
    expect([path, (await ask(path)).status]).toEqual([path, 404]);
    expect([path, (await ask(path, { method: 'POST' })).status]).toEqual([path, 404]);
  }
});

test('the guard of a route runs first, whichever spelling of the path has matched', async () => {
  const headers = { 'x-banned': '1' };
  const ways: [string, string][] = [
    ['GET', '/guarded'],
    ['GET', '/guarded?x=1'],
    ['HEAD', '/guarded'],
    ['POST', '/guarded'],
    ['POST', '/guarded?x=1'],
    ['GET', '/guarded/1'],
    ['GET', '/guarded/%31?x'],
  ];
  for (const [method, path] of ways) {
    const status = async (init: RequestInit) => (await fetch(`http://127.0.0.1:${port}${path}`, init)).status;
    expect([method, path, await status({ method, headers })]).toEqual([method, path, 403]);
    expect([method, path, await status({ method })]).toEqual([method, path, 200]);
  }
});

test('a target that is no path with a query is 400', async () => {
  const targets = [
    `http://127.0.0.1:${port}/busy`,
    '/busy#x',
    '#',
    '/busy?a=1#x',
    'busy',
    '/bu\xa0sy',
    '/busy\xff',
    '*a',
  ];
  for (const target of targets) {
    const answer = await exchangeBytes(
      `http://127.0.0.1:${port}`,
      Buffer.from(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`, 'latin1'),
    );
    expect([target, answer?.status, answer?.body.code]).toEqual([target, 400, 'invalid_request']);
  }
});
