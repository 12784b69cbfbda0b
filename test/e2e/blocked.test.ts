import { randomUUID } from 'node:crypto';
import net from 'node:net';
import { expect, test } from '@jest/globals';
import { newAddress } from '../harness/addresses.js';
import { expectProblem } from '../harness/checks.js';
import { atEnd } from '../harness/cleanup.js';
import { Operator, send } from '../harness/clients.js';
import { behindApi, sharedService } from '../harness/service.js';
import { range } from '../harness/shoppers.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

// What the cheap refusals (api/guards/abuse/blocklist-guard.ts) must not lose for being cheap. What they cost is
// loadtest/bench/blocked.mjs.

const BANNED = newAddress();
const [BAD_USER, BAD_DEVICE, HOME] = [`user-${randomUUID()}`, `fp-${randomUUID()}`, newAddress()];
const service = await behindApi(await sharedService(), { TOKENS_PER_MINUTE: '3', POLLS_PER_10_SECONDS: '10' });
const operator = new Operator(service.url);
const product = await operator.openCampaign({ total_limit: 1_000 });
const ban = (kind: string, subject: string) =>
  operator.call('POST', '/admin/bans', { kind, subject, reason: 'a test', until: '2090-01-01T00:00:00Z' });
await Promise.all([ban('network', BANNED), ban('user', BAD_USER), ban('device', BAD_DEVICE)]);

const buy = (who: { user?: string; device?: string; address?: string }, headers: Record<string, string> = {}) => {
  const { user = `user-${randomUUID()}`, device = `fp-${randomUUID()}`, address = HOME } = who;
  return send(`${service.url}/flash-sale/checkout`, {
    method: 'POST',
    headers: { 'x-forwarded-for': address, ...headers },
    json: { product_id: product, user_id: user, qty: 1, ...freshToken(device), idempotency_key: randomUUID() },
  });
};
const tokenFrom = (address: string, id: string = randomUUID()) =>
  send(`${service.url}/flash-sale/token?device_fp=fp`, { headers: { 'x-forwarded-for': address, 'x-request-id': id } });

test('every one of many refusals is a whole problem document with an instance that is in the log', async () => {
  const ways = [{ address: BANNED }, { user: BAD_USER }, { device: BAD_DEVICE }];
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, i) => buy(ways[i % 3] ?? {}, { 'x-request-id': `find-me-${i}-end` })),
  );
  for (const [i, answer] of answers.entries()) {
    expectProblem(answer, 403, 'blocked');
    expect([answer.body.until, answer.body.instance]).toEqual([
      '2090-01-01T00:00:00.000Z',
      `urn:doorbuster:request:find-me-${i}-end`,
    ]);
    expect(answer.headers.get('x-request-id')).toBe(`find-me-${i}-end`);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(3_600);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  }
  const logged = (i: number) => service.api.log.some((line) => line.includes(`find-me-${i}-end`));
  await until('all of them are logged', () => answers.every((_, i) => logged(i)));
  // Together, and not one line each.
  expect(service.api.log.filter((line) => line.includes('find-me-')).length).toBeLessThan(60);
});

test('a network over its limit of tokens gets 429 with its quota, and again as cheaply', async () => {
  const address = newAddress();
  const answers = [];
  for (let i = 0; i < 6; i += 1) answers.push(await tokenFrom(address));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429, 429]);
  for (const answer of answers.slice(3)) {
    expectProblem(answer, 429, 'rate_limited');
    expect(answer.body.policy).toBe('token');
    expect(answer.headers.get('ratelimit-policy')).toBe('"token";q=3;w=60');
    expect(answer.headers.get('ratelimit')).toMatch(/^"token";r=0;t=\d+$/);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  }
  expect((await tokenFrom(newAddress())).status).toBe(200);
});

test('a poller over its limit gets 429 with its quota, as cheaply, and no other user or network does', async () => {
  const [address, eager] = [newAddress(), `user-${randomUUID()}`];
  const poll = (user: string, from: string, id: string = randomUUID()) =>
    send(`${service.url}/flash-sale/queue-status?product_id=${product}&user_id=${user}`, {
      headers: { 'x-forwarded-for': from, 'x-request-id': id },
    });
  for (let i = 0; i < 10; i += 1) expect((await poll(eager, address)).status).toBe(200);
  expectProblem(await poll(eager, address), 429, 'rate_limited');

  const answers = await Promise.all(range(1, 50).map((i) => poll(eager, address, `poll-me-${i}-end`)));
  for (const answer of answers) {
    expectProblem(answer, 429, 'rate_limited');
    expect(answer.headers.get('ratelimit-policy')).toBe('"poll";q=10;w=10');
    expect(answer.headers.get('ratelimit')).toMatch(/^"poll";r=0;t=\d+$/);
  }
  const logged = () => service.api.log.filter((line) => line.includes('poll-me-'));
  await until('all of them are logged', () => logged().join().split('poll-me-').length > 50);
  // Together, and not one line each: none of them asked Redis.
  expect(logged().length).toBeLessThan(25);
  expect((await poll(`user-${randomUUID()}`, address)).status).toBe(200);
  expect((await poll(eager, newAddress())).status).toBe(200);
});

test('a connection goes on after a refusal with a small body, and ends after one with an unread body', async () => {
  const { hostname, port } = new URL(service.url);
  const socket = net.connect(Number(port), hostname);
  atEnd('the connection', () => {
    socket.destroy();
  });
  let got = '';
  socket.on('data', (part) => {
    got += part;
  });
  const head = `POST /flash-sale/checkout HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${BANNED}\r\nContent-Type: application/json\r\n`;
  const refusals = () => got.match(/HTTP\/1\.1 403/g)?.length ?? 0;
  for (const small of [1, 2]) {
    socket.write(`${head}Content-Length: 7\r\n\r\n{"a":1}`);
    await until('it is refused', () => refusals() === small);
  }
  expect(got).not.toMatch(/connection: close/i);
  socket.write(`${head}Content-Length: 1000000000\r\n\r\n{`);
  await until('it is refused and closed', () => refusals() === 3 && socket.readableEnded);
  expect(got).toMatch(/connection: close/i);
});
