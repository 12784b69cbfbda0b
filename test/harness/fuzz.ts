import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { expectRefusal } from './checks.js';
import type { Answer } from './clients.js';
import { request, requestJson } from './raw-http.js';
import { SERVICE_SECRET, type Service } from './service.js';
import { freshToken } from './tokens.js';

const payment = { authorization: `Bearer ${SERVICE_SECRET}` };

/** @param bodyless the answer to HEAD has none, and a status alone says everything */
function expectSane(answer: Answer, bodyless = false): void {
  expect(answer.headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._:-]{1,128}$/);
  if (answer.status < 300) expect(answer.status).toBeGreaterThanOrEqual(200);
  else if (bodyless) expect(String(answer.status)).toMatch(/^4/);
  else expectRefusal(answer);
}

/** A member that is right, missing, or anything that JSON can say. */
const member = (right: fc.Arbitrary<string>) =>
  fc.oneof(
    { arbitrary: right, weight: 3 },
    { arbitrary: anyJson, weight: 2 },
    { arbitrary: fc.constant(null), weight: 1 },
  );
const strange = fc.constantFrom(
  '1e400',
  '-0',
  '1e-400',
  '"\\ud800"',
  '"\\u0000"',
  '9007199254740993',
  '{"__proto__":1}',
  '"__proto__"',
  '[[[[]]]]',
);
const anyJson = fc.oneof(
  fc.jsonValue().map((value) => JSON.stringify(value)),
  strange,
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
);
const text = (values: fc.Arbitrary<unknown>) => values.map((value) => JSON.stringify(value));

const METHODS = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'TRACE',
  'PROPFIND',
  'MKCOL',
  'LINK',
  'SEARCH',
];
/** Percent-encodes any text, lone surrogates too. */
function percentEncode(value: string): string {
  return [...Buffer.from(value)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
}

/**
 * Whatever is sent, the answer is a success or a whole problem document below 500.
 * @param product a campaign of the service without a limit
 * @param numRuns random requests of each test
 */
export function fuzz(service: Service, product: string, numRuns: number): void {
  const RUNS = { numRuns };
  const checkoutBody = fc
    .record({
      product_id: member(fc.constantFrom(JSON.stringify(product), '"no-such-product"')),
      user_id: member(text(fc.stringMatching(/^[A-Za-z0-9._:@-]{1,128}$/))),
      qty: member(text(fc.integer({ min: 1, max: 7 }))),
      device: member(fc.constant('right')),
      idempotency_key: member(text(fc.uuid())),
      extra: member(anyJson),
    })
    .map(({ device, ...members }) => {
      // A device of its own for each run: the quota is not what is looked for.
      const token = freshToken(`fp-${randomUUID()}`);
      const deviceMembers = Object.entries(token).map(
        ([name, value]) => [name, device === 'right' ? JSON.stringify(value) : device] as const,
      );
      return `{${[...Object.entries(members), ...deviceMembers]
        .filter(([, value]) => value !== null)
        .map(([name, value]) => `"${name}":${value}`)
        .join(',')}}`;
    });

  test('checkout bodies of arbitrary members', async () => {
    const seen = new Set<number>();
    const token = JSON.stringify(freshToken(`fp-${randomUUID()}`)).slice(1, -1);
    const good = `{"product_id":"${product}","user_id":"good","qty":1,"idempotency_key":"${randomUUID()}",${token}}`;
    await fc.assert(
      fc.asyncProperty(checkoutBody, async (body) => {
        const answer = await requestJson(service.url, 'POST', '/flash-sale/checkout', body);
        seen.add(answer.status);
        expectSane(answer);
      }),
      { ...RUNS, examples: [[good]] },
    );
    // The bodies are good enough to get through, and bad enough not to.
    expect([...seen]).toEqual(expect.arrayContaining([200, 400]));
  });

  test('checkout bodies with a few characters changed, added or taken away', async () => {
    const edit = fc.record({
      at: fc.nat(400),
      remove: fc.nat(4),
      insert: fc.oneof(fc.constantFrom('"', '{', '}', '[', ':', ',', '\\', '0', 'e', '-'), fc.string()),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(edit, { minLength: 1, maxLength: 5 }), async (edits) => {
        const good = {
          product_id: product,
          user_id: randomUUID(),
          qty: 1,
          ...freshToken(`fp-${randomUUID()}`),
          idempotency_key: randomUUID(),
        };
        let body = JSON.stringify(good);
        for (const { at, remove, insert } of edits) body = body.slice(0, at) + insert + body.slice(at + remove);
        expectSane(await requestJson(service.url, 'POST', '/flash-sale/checkout', body));
      }),
      RUNS,
    );
  });

  test('bodies of arbitrary bytes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 300 }),
        fc.constantFrom('checkout', 'confirm', 'release', 'refund'),
        async (bytes, call) => {
          const answer = await requestJson(service.url, 'POST', `/flash-sale/${call}`, Buffer.from(bytes), payment);
          expectSane(answer);
          expect(answer.status).toBe(400);
        },
      ),
      RUNS,
    );
  });

  test('reservation ids and notes of arbitrary text', async () => {
    const id = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.uuid({ version: 7 }),
      fc.uuid(),
      fc.string({ minLength: 36, maxLength: 36 }),
    );
    await fc.assert(
      fc.asyncProperty(
        id,
        fc.string({ unit: 'binary' }),
        fc.constantFrom('confirm', 'release', 'refund'),
        async (reservation_id, note, call) => {
          const body = JSON.stringify({ reservation_id, reason: note, payment_ref: note });
          const answer = await requestJson(service.url, 'POST', `/flash-sale/${call}`, body, payment);
          expectSane(answer);
          expect([400, 404]).toContain(answer.status);
        },
      ),
      RUNS,
    );
  });

  const KNOWN = [
    'flash-sale',
    'checkout',
    'token',
    'queue-status',
    'queue',
    'ws',
    'admin',
    'campaigns',
    'stats',
    'docs',
    'livez',
    'metrics',
    product,
    '..',
    '.',
    '',
  ];
  const segment = fc.oneof(
    { arbitrary: fc.constantFrom(...KNOWN), weight: 4 },
    { arbitrary: fc.string({ unit: 'binary' }).map(percentEncode), weight: 1 },
    // Visible ASCII as it is, which no client would send: broken escapes, quotes, brackets.
    {
      arbitrary: fc
        .string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)) })
        .map((part) => part.replace('#', '')),
      weight: 1,
    },
  );
  const query = fc.oneof(
    fc.constant(''),
    fc.webQueryParameters().map((part) => `?${part}`),
    segment.map((part) => `?device_fp=${part}&product_id=${part}&user_id=${part}`),
  );

  test('arbitrary methods, paths and queries', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...METHODS),
        fc.array(segment, { maxLength: 5 }),
        query,
        async (method, segments, search) => {
          const path = `/${segments.join('/')}${search}`;
          expectSane(await request(service.url, { method, path }), method === 'HEAD');
        },
      ),
      RUNS,
    );
  });

  test('arbitrary values in the headers that are read', async () => {
    const names = [
      'authorization',
      'content-type',
      'idempotency-key',
      'x-ticket',
      'x-request-id',
      'traceparent',
      'x-device-fingerprint',
      'if-none-match',
      'accept',
      'x-forwarded-for',
      'content-encoding',
    ];
    const value = fc.string({
      unit: fc
        .integer({ min: 0x20, max: 0xff })
        .filter((code) => code !== 0x7f)
        .map((code) => String.fromCharCode(code)),
    });
    const path = fc.constantFrom(
      'POST /flash-sale/checkout',
      'POST /flash-sale/release',
      `GET /flash-sale/queue-status?product_id=${product}&user_id=a`,
      'GET /flash-sale/token',
      'DELETE /flash-sale/queue',
      'GET /admin/campaigns',
    );
    await fc.assert(
      fc.asyncProperty(path, fc.dictionary(fc.constantFrom(...names), value), async (route, headers) => {
        const [method, target] = route.split(' ') as [string, string];
        expectSane(
          await request(service.url, { method, path: target, headers, ...(method === 'GET' ? {} : { body: '{}' }) }),
        );
      }),
      RUNS,
    );
  });

  test('the server works after all of these requests, without an error in its log', async () => {
    expect((await request(service.url, { path: '/livez' })).status).toBe(200);
    expect(service.api.child.exitCode).toBeNull();
    expect(service.api.log.filter((line) => (JSON.parse(line) as { level: unknown }).level === 50)).toEqual([]);
  });
}
