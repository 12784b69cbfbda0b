import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, test } from '@jest/globals';
import type { Request } from 'express';
import { beginExchange, retryAfter, sendText } from './respond.js';
import { API_HEADERS, PAGE_HEADERS } from './security-headers.js';

const begun = (headers: Record<string, string>): Request => {
  const req = { headers } as unknown as Request;
  beginExchange(req);
  return req;
};

test('keeps a safe request id and generates one otherwise', () => {
  expect(begun({ 'x-request-id': 'abc-1.2:3_4' }).requestId).toBe('abc-1.2:3_4');
  for (const id of ['', 'a b', 'a\nb', 'x'.repeat(129), '<script>', 'ü'])
    expect(begun({ 'x-request-id': id }).requestId).toMatch(/^[A-Za-z0-9-]{12}\.[0-9a-z]+$/);
  expect(begun({}).requestId).not.toBe(begun({}).requestId);
});

test('keeps a valid trace context only', () => {
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  expect(begun({ traceparent: trace }).trace).toBe(trace);
  for (const wrong of ['', 'x', trace.toUpperCase(), `${trace}-more`, trace.slice(1)])
    expect(begun({ traceparent: wrong }).trace).toBe('');
});

test('Retry-After is at least the required time and varies', () => {
  for (const [seconds, least, most] of [
    [0, 1, 2],
    [0.2, 1, 2],
    [1, 1, 2],
    [2, 2, 3],
    [10, 10, 15],
    [29.1, 30, 45],
    [3_600, 3_600, 5_400],
  ] as const) {
    const given = Array.from({ length: 300 }, () => retryAfter(seconds));
    expect(given.every((value) => /^\d+$/.test(value))).toBe(true);
    expect(Math.min(...given.map(Number))).toBeGreaterThanOrEqual(least);
    expect(Math.max(...given.map(Number))).toBeLessThanOrEqual(most);
    expect(new Set(given).size).toBeGreaterThan(1);
  }
});

test('sends the headers that prevent loading, framing and sniffing', () => {
  const headersOf = (list: readonly string[]) =>
    Object.fromEntries(Array.from({ length: list.length / 2 }, (_, i) => [list[2 * i], list[2 * i + 1]]));
  expect(headersOf(API_HEADERS)).toMatchObject({
    'Content-Security-Policy': "default-src 'none';frame-ancestors 'none'",
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'SAMEORIGIN',
    'Strict-Transport-Security': expect.stringContaining('max-age='),
    'Referrer-Policy': 'no-referrer',
  });
  expect(headersOf(PAGE_HEADERS)['Content-Security-Policy']).toContain("script-src 'self'");
});

test('sends the very bytes that writeHead and end would send', async () => {
  const text = '{"data":"Grüße"}';
  const fields = ['Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(text)), 'X-Own', '1'];
  const sendings: Record<string, (res: ServerResponse, status: number) => void> = {
    ours: (res, status) => sendText(res, status, fields, text),
    node: (res, status) => res.writeHead(status, [...API_HEADERS, 'Cache-Control', 'no-store', ...fields]).end(text),
    'ours, and then closed': (res, status) => sendText(res, status, [...fields, 'Connection', 'close'], text),
    'node, and then closed': (res, status) =>
      res.writeHead(status, [...API_HEADERS, 'Cache-Control', 'no-store', ...fields, 'Connection', 'close']).end(text),
  };
  const server = createServer((req, res) => {
    const [, sending, status] = decodeURI(String(req.url)).split('/');
    sendings[String(sending)]?.(res, Number(status));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const answer = (method: string, sending: string, status: number) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1');
      let all = '';
      socket.on('data', (chunk) => {
        all += chunk;
      });
      socket.on('error', reject);
      socket.on('close', () => resolve(all.replace(/Date: [^\r]+/, 'Date: now')));
      // The rest is no request, so the connection ends after the first response.
      socket.write(`${method} ${encodeURI(`/${sending}/${status}`)} HTTP/1.1\r\nHost: x\r\n\r\n?\r\n\r\n`);
    });
  try {
    for (const [method, status] of [
      ['GET', 200],
      ['POST', 202],
      ['POST', 422],
      ['HEAD', 200],
    ] as const) {
      const asNode = await answer(method, 'node', status);
      expect(asNode).toMatch(new RegExp(`^HTTP/1.1 ${status} [^]*\r\n\r\n${method === 'HEAD' ? '' : '\\{'}`));
      expect(await answer(method, 'ours', status)).toBe(asNode);
      const closed = await answer(method, 'node, and then closed', status);
      expect(closed).toContain('Connection: close');
      expect(await answer(method, 'ours, and then closed', status)).toBe(closed);
    }
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});
