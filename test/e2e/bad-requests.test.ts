import { describe, expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator } from '../harness/clients.js';
import { exchangeBytes, request } from '../harness/raw-http.js';
import { ADMIN_SECRET, sharedService } from '../harness/service.js';
import { forEachAtMost } from '../harness/shoppers.js';
import { freshToken } from '../harness/tokens.js';

// Invalid paths, methods and headers, and bytes that are no HTTP.

const service = await sharedService();
const product = await new Operator(service.url).openCampaign({ total_limit: 10, hold_seconds: 900 });
const admin = { authorization: `Bearer ${ADMIN_SECRET}` };

/** Sends bytes as they are; a `\xff` is one byte. */
const exchange = (bytes: string) => exchangeBytes(service.url, Buffer.from(bytes, 'latin1'));
const toCheckout = (headers: string, body = '') =>
  `POST /flash-sale/checkout HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}\r\n${body}`;

function expectAnswer(answer: Answer | null): Answer {
  if (answer === null) throw new Error('the connection was ended without an answer');
  return answer;
}

describe('a path', () => {
  test('that does not exist is 404 for every method', async () => {
    const paths = [
      '/nothing',
      '/flash-sale',
      '/flash-sale/',
      '/flash-sale/checkouts',
      '/flash-sale/checkout/x',
      '/FLASH-SALE/checkout',
      '//livez',
      '/flash-sale//checkout',
      '/livez/..',
      '/../livez',
      '/./livez',
      '/livez%00',
      '/livez%2f',
      '/%6civez',
      '/.env',
      '/.git/config',
      '/package.json',
      '/docs/../package.json',
      '/admin/campaigns/x/y/z',
      '/constructor',
      '/__proto__',
      '/%F0%9F%8D%9C',
      '/;/livez',
      '/livez;jsessionid=1',
      '*',
    ];
    for (const path of paths) {
      for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
        const answer = await request(service.url, { method, path, headers: { 'x-request-id': 'lost' } });
        expect(`${method} ${path} → ${answer.status}`).toBe(`${method} ${path} → 404`);
        expectProblem(answer, 404, 'not_found');
        expect(answer.headers.get('x-request-id')).toBe('lost');
      }
    }
  });

  test('with invalid percent-encoding is 400', async () => {
    for (const part of ['%', '%z', '%zz', '%2', '%ff', '%c3%28', '%e0%80%80', '%ed%a0%80', 'a%']) {
      for (const path of [`/admin/campaigns/${part}`, `/admin/campaigns/${part}/stats`, `/docs/${part}`]) {
        expectProblem(await request(service.url, { path, headers: admin }), 400, 'invalid_request');
      }
    }
  });

  test('with an id that cannot be one is 400 or 404', async () => {
    for (const id of [
      '%20',
      '%F0%9F%8D%9C',
      'x'.repeat(129),
      'x'.repeat(8_000),
      "'%20or%20''='",
      '..%2f..%2fetc%2fpasswd',
      '%25%30%30',
      '-1',
      'null',
    ]) {
      const answer = await request(service.url, { path: `/admin/campaigns/${id}`, headers: admin });
      expect([400, 404]).toContain(answer.status);
      expectProblem(answer, answer.status, answer.status === 400 ? 'invalid_request' : 'campaign_not_found');
    }
  });

  test.each(['', '/stats', '/redemptions', '/open'])(
    'with a NUL in the id is 400 or 404: /admin/campaigns/%%00%s',
    async (rest) => {
      const method = rest === '/open' ? 'POST' : 'GET';
      const answer = await request(service.url, { method, path: `/admin/campaigns/%00${rest}`, headers: admin });
      expectProblem(
        answer,
        answer.status === 404 ? 404 : 400,
        answer.status === 404 ? 'campaign_not_found' : 'invalid_request',
      );
    },
  );
});

describe('a query', () => {
  test('that is wrong is 400', async () => {
    const id = `product_id=${product}&user_id=ani`;
    const queries = [
      '',
      'product_id=',
      `product_id=${product}`,
      'user_id=ani',
      `${id}&user_id=budi`,
      `${id}&product_id=x`,
      'product_id=%zz&user_id=%',
      'product_id=%ff&user_id=a',
      'product_id=%00&user_id=a',
      'product_id[]=a&user_id=b',
      'product_id[a]=b&user_id[__proto__]=c',
      `product_id=${'x'.repeat(129)}&user_id=a`,
      '__proto__=1',
      '&&&',
      '=',
    ];
    for (const query of queries)
      expectProblem(await request(service.url, { path: `/flash-sale/queue-status?${query}` }), 400, 'invalid_request');
    for (const query of [
      'limit=0',
      'limit=501',
      'limit=-1',
      'limit=1.5',
      'limit=',
      'limit=x',
      'limit=1e400',
      'limit=NaN',
      'limit=1&limit=2',
      'cursor=0',
      'cursor=x',
      'cursor=1e400',
    ]) {
      expectProblem(
        await request(service.url, { path: `/admin/campaigns?${query}`, headers: admin }),
        400,
        'invalid_request',
      );
    }
  });

  test('with a cursor beyond any campaign is an empty page or 400', async () => {
    for (const cursor of ['2147483648', '9007199254740991']) {
      const { status } = await request(service.url, { path: `/admin/campaigns?cursor=${cursor}`, headers: admin });
      expect([200, 400]).toContain(status);
    }
  });
});

test('a method that a path does not take is 405, with those that it takes in Allow', async () => {
  const { body } = await request(service.url, { path: '/openapi.json' });
  const described = Object.entries(body.paths as Record<string, object>).map(
    ([path, methods]) =>
      [path.replace('{id}', product), Object.keys(methods).map((method) => method.toUpperCase())] as const,
  );
  const undescribed = ['/openapi.json', '/docs', '/docs/start.js'].map((path) => [path, ['GET']] as const);
  const routes: (readonly [string, readonly string[]])[] = [...described, ...undescribed];
  expect(routes.length).toBeGreaterThan(20);
  for (const [path, methods] of routes) {
    const allowed = methods.includes('GET') ? [...methods, 'HEAD'] : methods;
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'PURGE'].filter(
      (each) => !allowed.includes(each),
    )) {
      const answer = await request(service.url, { method, path, headers: admin });
      expect(`${method} ${path} → ${answer.status}`).toBe(`${method} ${path} → 405`);
      expectProblem(answer, 405, 'method_not_allowed');
      expect(answer.headers.get('allow')?.split(', ').sort()).toEqual([...allowed].sort());
    }
  }
});

describe('headers', () => {
  test('that are huge are 431', async () => {
    const wide = await exchange(`GET /livez HTTP/1.1\r\nHost: x\r\nX-Wide: ${'a'.repeat(100_000)}\r\n\r\n`);
    const many = await exchange(
      `GET /livez HTTP/1.1\r\nHost: x\r\n${Array.from({ length: 3_000 }, (_, i) => `X-${i}: a\r\n`).join('')}\r\n`,
    );
    const long = await exchange(`GET /${'a'.repeat(100_000)} HTTP/1.1\r\nHost: x\r\n\r\n`);
    for (const answer of [wide, many, long]) {
      const { status, headers, body } = expectAnswer(answer);
      expect([status, body.status, headers.get('content-type')]).toEqual([431, 431, 'application/problem+json']);
    }
  });

  test('with an idempotency key of 12 KiB, or two of them, are 400', async () => {
    const json = JSON.stringify({ product_id: product, user_id: 'ani', qty: 1, ...freshToken('fp-1') });
    const headers = { 'content-type': 'application/json' };
    const call = (key: string | string[]) =>
      request(service.url, {
        method: 'POST',
        path: '/flash-sale/checkout',
        headers: { ...headers, 'idempotency-key': key },
        body: json,
      });
    expectProblem(await call('k'.repeat(12_000)), 400, 'invalid_request');
    expectProblem(await call(['key-number-1', 'key-number-2']), 400, 'invalid_request');
  });

  test('with a body announced larger than allowed are 413 before the body comes', async () => {
    for (const length of ['16385', '1000000000']) {
      expectProblem(expectAnswer(await exchange(toCheckout(`Content-Length: ${length}\r\n`))), 413, 'body_too_large');
    }
  });
});

describe('bytes that are no HTTP request', () => {
  const MALFORMED: [string, string][] = [
    ['a body that ends before its Content-Length', toCheckout('Content-Length: 100\r\n', '{"qty":1}')],
    ['no body where one is announced', toCheckout('Content-Length: 5\r\n')],
    ['a chunk without a size', toCheckout('Transfer-Encoding: chunked\r\n', 'zz\r\n')],
    ['a chunk that is cut off', toCheckout('Transfer-Encoding: chunked\r\n', 'ff\r\n{"a"')],
    [
      'a chunk extension of 20 KB',
      toCheckout('Transfer-Encoding: chunked\r\n', `2;${'a'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`),
    ],
    ['a length and chunks', toCheckout('Content-Length: 2\r\nTransfer-Encoding: chunked\r\n', '2\r\n{}\r\n0\r\n\r\n')],
    ['two lengths', toCheckout('Content-Length: 2\r\nContent-Length: 3\r\n', '{}')],
    ['a negative length', toCheckout('Content-Length: -1\r\n', '{}')],
    ['a length of 20 digits', toCheckout('Content-Length: 99999999999999999999\r\n', '{}')],
    ['a length that is no number', toCheckout('Content-Length: 0x2\r\n', '{}')],
    ['an unknown transfer encoding', toCheckout('Transfer-Encoding: gzip\r\n', '{}')],
    ['a line that is no request', 'hello\r\n\r\n'],
    ['a TLS greeting', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['an HTTP/2 greeting', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/9.9', 'GET /livez HTTP/9.9\r\nHost: x\r\n\r\n'],
    ['an unknown method', 'FETCH /livez HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a NUL in the path', 'GET /liv\0ez HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a byte of Latin-1 in the path', 'GET /liv\xe9z HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a space before the colon', 'GET /livez HTTP/1.1\r\nHost: x\r\nX-A : b\r\n\r\n'],
    ['a bare CR in a header', 'GET /livez HTTP/1.1\r\nHost: x\r\nX-A: a\rb\r\n\r\n'],
    ['a NUL in a header', 'GET /livez HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n'],
    ['a header that is cut off', 'GET /livez HTTP/1.1\r\nHost: x\r\nX-A'],
  ];

  test.each(MALFORMED)('are refused with 400 and the connection: %s', async (_, bytes) => {
    const { status, headers, body, text } = expectAnswer(await exchange(bytes));
    expect([status, headers.get('content-type'), headers.get('connection')]).toEqual([
      400,
      'application/problem+json',
      'close',
    ]);
    expect(body).toMatchObject({
      title: expect.any(String),
      status: 400,
      detail: expect.any(String),
      code: expect.stringMatching(/^invalid_/),
    });
    expect(text).not.toMatch(/HPE_|parse|\bat /i);
  });

  test('are answered with a whole problem document', async () => {
    await forEachAtMost(4, MALFORMED, async ([, bytes]) => {
      const answer = expectAnswer(await exchange(bytes));
      expectProblem(answer, 400, String(answer.body.code));
      expect(answer.headers.get('x-request-id')).toMatch(/./);
    });
  });

  test.each([
    ['no Host', 'GET /livez HTTP/1.1\r\n\r\n', 400],
    ['an expectation that cannot be met', toCheckout('Content-Length: 2\r\nExpect: 200-ok\r\n', '{}'), 417],
    ['a target that is no URL', 'GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ])('are a problem document too: %s', async (_, bytes, status) => {
    const answer = expectAnswer(await exchange(bytes));
    expectProblem(answer, status, String(answer.body.code));
  });

  test('leave a server that goes on as before', async () => {
    expect((await request(service.url, { path: '/livez' })).status).toBe(200);
    expect(service.api.child.exitCode).toBeNull();
  });
});

describe('an offer to upgrade', () => {
  const offer = (line: string, upgrade: string) =>
    exchange(
      `${line} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: ${upgrade}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    );

  test('to HTTP/2 may be ignored, and the request is answered', async () => {
    const { status, body } = expectAnswer(await offer('GET /livez', 'h2c'));
    expect([status, body]).toEqual([200, { data: { status: 'alive' } }]);
  });

  test('to a WebSocket elsewhere, or in a wrong way, is refused with a problem document', async () => {
    expectProblem(expectAnswer(await offer('GET /elsewhere', 'websocket')), 404, 'not_found');
    expectProblem(expectAnswer(await offer('POST /flash-sale/ws', 'websocket')), 405, 'method_not_allowed');
  });

  test('to a WebSocket elsewhere is 404', async () => {
    expect(expectAnswer(await offer('GET /elsewhere', 'websocket')).status).toBe(404);
    expect(expectAnswer(await offer('GET /flash-sale/ws/x', 'websocket')).status).toBe(404);
  });

  test('to a WebSocket that is no request of ours is 400, with a problem document', async () => {
    for (const target of ['http://[/flash-sale/ws', 'http://x/flash-sale/ws', '/flash-sale/ws#x'])
      expectProblem(expectAnswer(await offer(`GET ${target}`, 'websocket')), 400, 'invalid_request');
    const withHead = (head: string) =>
      exchange(`GET /flash-sale/ws HTTP/1.1\r\n${head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
    const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
    for (const head of [
      key,
      `Host: x\r\nHost: y\r\n${key}`,
      `Host: a b/c\r\n${key}`,
      'Host: x\r\nSec-WebSocket-Key: x\r\n',
    ])
      expectProblem(expectAnswer(await withHead(head)), 400, 'invalid_request');
  });
});
