import net from 'node:net';
import { afterAll, describe, expect, test } from '@jest/globals';
import { Operator } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { ShopperSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';

// Hostile clients with valid HTTP. bad-requests.test.ts has bytes that are no HTTP.

const service = await sharedService();
const operator = new Operator(service.url);
const product = await operator.openCampaign({ total_limit: 1_000, hold_seconds: 900 });

const opened: net.Socket[] = [];
afterAll(() => {
  for (const socket of opened) socket.destroy();
});
/** A connection, and everything that came on it so far. */
async function dial(url = service.url): Promise<{ socket: net.Socket; got: () => string; isClosed: () => boolean }> {
  const target = new URL(url);
  const socket = net.connect({ host: target.hostname, port: Number(target.port) });
  opened.push(socket);
  let text = '';
  socket.on('data', (part) => {
    text += part;
  });
  socket.on('error', () => {
    // A reset by the server is one of the things that may happen.
  });
  await until('the connection is open', () => !socket.connecting);
  return { socket, got: () => text, isClosed: () => socket.destroyed || socket.readableEnded };
}
const buys = async () => expect((await arrive(service.url, product).checkout()).status).toBe(200);
const answersIn = (text: string): string[] => text.match(/HTTP\/1\.1 \d{3}/g) ?? [];

test('an upgrade behind pipelined requests is answered after them, and none of them is lost', async () => {
  const get = 'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n';
  const upgrade = (path: string) =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';
  for (const [path, status] of [
    ['/flash-sale/ws', 101],
    ['/no-such-path', 404],
  ] as const) {
    const { socket, got } = await dial();
    socket.write(get.repeat(20) + upgrade(path));
    await until('the upgrade is answered', () => answersIn(got()).includes(`HTTP/1.1 ${status}`));
    expect(answersIn(got())).toEqual([...Array(20).fill('HTTP/1.1 200'), `HTTP/1.1 ${status}`]);
    socket.destroy();
  }
});

test('a client that sends its headers, or its body, a byte at a time gets 408 and is disconnected while others buy', async () => {
  const [head, body] = await Promise.all([dial(), dial()]);
  body.socket.write(
    'POST /flash-sale/checkout HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{',
  );
  head.socket.write('GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ');
  const drip = setInterval(() => {
    for (const { socket } of [head, body]) if (socket.writable) socket.write('a');
  }, 200);
  try {
    await buys();
    await until('the slow headers are answered', () => head.got().startsWith('HTTP/1.1 408'));
    await until('the slow body is answered', () => body.got().startsWith('HTTP/1.1 408'));
    await until('both are cut off', () => head.isClosed() && body.isClosed());
    expect(head.got()).toContain('"code":"request_timeout"');
  } finally {
    clearInterval(drip);
  }
});

test('a flood of pipelined requests is answered in order, and others buy meanwhile', async () => {
  const { socket, got } = await dial();
  const COUNT = 2_000;
  const requests = Array.from(
    { length: COUNT },
    (_, i) => `GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: p${i}\r\n\r\n`,
  );
  socket.write(requests.join(''));
  await buys();
  await until('all are answered', () => answersIn(got()).length === COUNT);
  const order = [...got().matchAll(/X-Request-Id: p(\d+)/gi)].map(([, i]) => Number(i));
  expect(order).toEqual(Array.from({ length: COUNT }, (_, i) => i));
});

test('a thousand silent connections keep no client out', async () => {
  const idle = await Promise.all(Array.from({ length: 1_000 }, () => dial()));
  await Promise.all(Array.from({ length: 20 }, () => buys()));
  expect(idle.filter(({ isClosed }) => isClosed()).length).toBe(0);
  for (const { socket } of idle) socket.destroy();
});

describe('a second request that is hidden in the first', () => {
  const hidden = `DELETE /flash-sale/queue HTTP/1.1\r\nHost: x\r\n\r\n`;
  const FIRST: [string, string][] = [
    [
      'behind a length and chunks',
      `Content-Length: ${hidden.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    ['behind chunks that are not the last encoding', 'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n'],
    ['behind chunks with a space', 'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n'],
    ['behind chunks with a vertical tab', 'Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n'],
    ['behind two lengths', 'Content-Length: 0\r\nContent-Length: 6\r\n\r\n'],
    ['behind a length with a sign', 'Content-Length: +0\r\n\r\n'],
    ['behind a folded header', 'X-A: a\r\n Content-Length: 0\r\nContent-Length: x\r\n\r\n'],
    ['behind a chunk size with junk', 'Transfer-Encoding: chunked\r\n\r\n0 0\r\n\r\n'],
  ];
  test.each(FIRST)('%s is never served: one 400, and the connection ends', async (_, rest) => {
    const { socket, got, isClosed } = await dial();
    socket.write(
      `POST /flash-sale/checkout HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${rest}${hidden}`,
      'latin1',
    );
    await until('the connection is ended', isClosed);
    expect(answersIn(got())).toEqual(['HTTP/1.1 400']);
  });

  test('is one more request when it is announced honestly', async () => {
    const { socket, got } = await dial();
    socket.write(
      `POST /flash-sale/checkout HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}${hidden}`,
    );
    await until('both are answered', () => answersIn(got()).length === 2);
    expect(answersIn(got())).toEqual(['HTTP/1.1 400', 'HTTP/1.1 401']);
  });
});

test('names like __proto__ in attributes, limits and carts change nothing for other requests', async () => {
  // Operators' bodies are strict, also inside.
  const poison = '{"__proto__":{"risk":"off","polluted":1},"constructor":{"prototype":{"polluted":1}}}';
  const post = (path: string, body: string, headers: Record<string, string> = {}) =>
    fetch(`${service.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    });
  const validated = await post('/coupons/validate', `{"code":"NONE-1","user_id":"ann","attributes":${poison}}`);
  expect(validated.status).toBe(404);
  const who = arrive(service.url, product);
  const bought = await post(
    '/flash-sale/checkout',
    `${JSON.stringify({ product_id: product, user_id: who.user, qty: 1, ...who.token, idempotency_key: 'poison-1' }).slice(0, -1)},"attributes":${poison}}`,
  );
  expect(bought.status).toBe(200);
  const campaign = `{"product_id":"sale-poison","total_limit":null,"limits":${poison}}`;
  const made = await post('/admin/campaigns', campaign, { authorization: 'Bearer admin-secret-of-the-tests' });
  expect([made.status, ((await made.json()) as { code: string }).code]).toEqual([400, 'unknown_field']);
  const after = await operator.call('POST', '/admin/campaigns', { product_id: 'sale-after', total_limit: null });
  expect([after.data.risk, after.data.limits]).toEqual(['observe', {}]);
  expect(JSON.stringify((await operator.call('GET', `/admin/campaigns/${product}`)).data)).not.toContain('polluted');
  expect(service.api.child.exitCode).toBeNull();
});

describe('sockets of one address', () => {
  test('are opened up to a limit in a minute, and get 429 beyond it', async () => {
    const { url } = await startApiProcess({ ...service.env, SOCKETS_PER_MINUTE: '3' });
    const sockets = await Promise.all([1, 2, 3].map(() => new ShopperSocket(url, null).opened()));
    const { socket, got } = await dial(url);
    socket.write(
      'GET /flash-sale/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    );
    await until('it is refused', () => got().startsWith('HTTP/1.1 429'));
    expect(got()).toMatch(/\r\nRetry-After: \d+\r\n/);
    expect(got()).toContain('"policy":"sockets"');
    for (const each of sockets) await each.hangUp();
  });

  test('send so many frames together, and the one that goes beyond is closed', async () => {
    const { url } = await startApiProcess({ ...service.env, SOCKET_FRAMES_PER_10_SECONDS: '20' });
    const sockets = await Promise.all([1, 2, 3].map(() => new ShopperSocket(url, null).opened()));
    for (let i = 0; i < 8; i += 1)
      for (const socket of sockets) if (socket.closeCode === null) socket.send({ type: 'ping' });
    await until('one is closed', () => sockets.some(({ closeCode }) => closeCode === 4429));
    const text = await metricsText(url);
    expect(text).toMatch(/doorbuster_limited_total\{policy="frames"\} [1-9]/);
    for (const socket of sockets) await socket.hangUp();
  });
});

test('the server goes on as before', async () => {
  await buys();
  expect(service.api.log.filter((line) => line.includes('"level":50'))).toEqual([]);
});
