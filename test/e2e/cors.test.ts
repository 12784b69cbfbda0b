import { expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { expectProblem } from '../harness/checks.js';
import { Operator, send } from '../harness/clients.js';
import { request } from '../harness/raw-http.js';
import { ADMIN_SECRET, behindApi, sharedService } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';

// Pages of a shop at another origin, as browsers call for them.

const SHOP = 'https://shop.example';
const service = await behindApi(await sharedService(), { SHOP_ORIGINS: `${SHOP}, capacitor://localhost` });
const operator = new Operator(service.url);
const product = await operator.openCampaign({ total_limit: 10, hold_seconds: 900 });

const preflight = (path: string, origin: string, method = 'POST') =>
  request(service.url, {
    method: 'OPTIONS',
    path,
    headers: {
      host: 'x',
      origin,
      'access-control-request-method': method,
      'access-control-request-headers': 'content-type,idempotency-key',
    },
  });
const allowed = ({ headers }: { headers: Headers }) => headers.get('access-control-allow-origin');

test('a preflight from the shop is answered for every call of a shopper', async () => {
  for (const path of [
    '/flash-sale/checkout',
    '/flash-sale/token?device_fp=x',
    '/flash-sale/queue',
    '/coupons/redeem',
    '/coupons/token',
  ]) {
    const answer = await preflight(path, SHOP);
    expect([path, answer.status, answer.text, allowed(answer)]).toEqual([path, 204, '', SHOP]);
    expect(answer.headers.get('vary')).toBe('Origin');
    expect(answer.headers.get('access-control-allow-methods')).toBe('GET, POST, DELETE');
    const may = String(answer.headers.get('access-control-allow-headers')).toLowerCase().split(', ');
    for (const name of ['content-type', 'authorization', 'idempotency-key', 'x-ticket', 'x-shopper', 'traceparent'])
      expect(may).toContain(name);
    expect(Number(answer.headers.get('access-control-max-age'))).toBeGreaterThan(600);
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
    expect(answer.headers.get('x-request-id')).not.toBeNull();
  }
  expect(allowed(await preflight('/flash-sale/checkout', 'capacitor://localhost'))).toBe('capacitor://localhost');
});

test('a preflight from anywhere else, or for what is not for shoppers, is refused', async () => {
  const others = [
    'https://evil.example',
    'http://shop.example',
    'https://shop.example:8443',
    'https://shop.example.evil.example',
    'null',
    'https://SHOP.example',
  ];
  for (const origin of others) {
    const answer = await preflight('/flash-sale/checkout', origin);
    expect([origin, allowed(answer)]).toEqual([origin, null]);
    expectProblem(answer, 403, 'origin_not_allowed');
  }
  for (const path of [
    '/admin/campaigns',
    '/metrics',
    '/openapi.json',
    '/flash-saleX/checkout',
    '/admin/../flash-sale/checkout',
  ])
    expect([path, allowed(await preflight(path, SHOP))]).toEqual([path, null]);
});

test('every response to the shop’s page can be read, with the headers that callers need', async () => {
  const from = (origin: string) => ({ headers: { origin } });
  const bought = await arrive(service.url, product).checkout({}, { origin: SHOP });
  const refused = await send(`${service.url}/flash-sale/checkout`, { method: 'POST', json: {}, ...from(SHOP) });
  const status = await send(`${service.url}/flash-sale/queue-status?product_id=${product}&user_id=ann`, from(SHOP));
  const unchanged = await send(`${service.url}/flash-sale/queue-status?product_id=${product}&user_id=ann`, {
    headers: { origin: SHOP, 'if-none-match': String(status.headers.get('etag')) },
  });
  const nothing = await send(`${service.url}/flash-sale/nothing`, from(SHOP));
  expect([bought, refused, status, unchanged, nothing].map(({ status }) => status)).toEqual([200, 400, 200, 304, 404]);
  for (const answer of [bought, refused, status, unchanged, nothing]) {
    expect([allowed(answer), answer.headers.get('vary')]).toEqual([SHOP, 'Origin']);
    const exposed = String(answer.headers.get('access-control-expose-headers')).split(', ');
    for (const name of [
      'Retry-After',
      'RateLimit',
      'RateLimit-Policy',
      'Location',
      'ETag',
      'Idempotent-Replayed',
      'X-Request-Id',
    ])
      expect(exposed).toContain(name);
    expect(exposed).not.toContain('Set-Cookie');
  }
  await operator.call('POST', '/admin/bans', { kind: 'user', subject: 'banned-at-the-shop', reason: 'a test' });
  const banned = await arrive(service.url, product, 'banned-at-the-shop').checkout({}, { origin: SHOP });
  expect([banned.status, allowed(banned)]).toEqual([403, SHOP]);
});

test('responses to other pages, and those that are not for shoppers, cannot be read', async () => {
  const evil = await arrive(service.url, product).checkout({}, { origin: 'https://evil.example' });
  expect(allowed(evil)).toBeNull();
  const admin = { headers: { origin: SHOP, authorization: `Bearer ${ADMIN_SECRET}` } };
  expect(allowed(await send(`${service.url}/admin/campaigns`, admin))).toBeNull();
});

test('sockets are opened for pages of the shop, our own, and clients that are no browsers', async () => {
  const url = `${service.url.replace('http', 'ws')}/flash-sale/ws`;
  const open = (origin: string | undefined) =>
    new Promise<number>((resolve) => {
      const socket = new WebSocket(url, origin === undefined ? {} : { origin });
      socket.once('open', () => {
        socket.terminate();
        resolve(101);
      });
      socket.once('unexpected-response', (_, response) => resolve(Number(response.statusCode)));
      socket.on('error', () => {
        // It was refused; its status says it.
      });
    });
  for (const origin of [SHOP, service.url, undefined]) expect([origin, await open(origin)]).toEqual([origin, 101]);
  for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:1', 'https://shop.example.evil.example'])
    expect([origin, await open(origin)]).toEqual([origin, 403]);
});
