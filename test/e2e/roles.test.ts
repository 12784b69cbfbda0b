import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { roleOfRoute } from '../../api/http/process-role.js';
import { LIMITS } from '../../shared/config/limits.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { freePort } from '../harness/free-port.js';
import { startApiProcess, startService, startWorkerProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { until } from '../harness/until.js';

/** APIs that only read, and APIs that only write. */
const service = await startService({ API_ROLE: 'write', UNKNOWN_CODES_PER_MINUTE: '20', TRUST_PROXY: '1' });
const write = service.url;
const { url: read } = await startApiProcess({ ...service.env, API_ROLE: 'read', API_WRITE_URL: write });
const operator = new Operator(write);

const withLine = { total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } };
const statusOf = (url: string, product: string, user: string) =>
  send(`${url}/flash-sale/queue-status?product_id=${product}&user_id=${user}`);

describe('each role', () => {
  const json = { product_id: 'none', user_id: 'no-one', qty: 1, idempotency_key: 'the-first-key' };
  test.each([
    ['GET', '/flash-sale/queue-status?product_id=none&user_id=no-one', 'read'],
    ['GET', '/flash-sale/campaign?product_id=none', 'read'],
    ['GET', '/sale/none', 'read'],
    ['GET', '/docs', 'read'],
    ['GET', '/openapi.json', 'read'],
    ['POST', '/coupons/validate', 'read'],
    ['GET', '/flash-sale/token?device_fp=phone', 'write'],
    ['POST', '/flash-sale/checkout', 'write'],
    ['POST', '/flash-sale/confirm', 'write'],
    ['POST', '/flash-sale/release', 'write'],
    ['POST', '/coupons/redeem', 'write'],
    ['DELETE', '/flash-sale/queue', 'write'],
    ['GET', '/flash-sale/reservations/none', 'write'],
    ['GET', '/admin/campaigns', 'write'],
    ['GET', '/admin', 'write'],
  ])('%s %s is served by the role %s, and 421 by the other', async (method, path, role) => {
    const ask = (url: string) => send(url + path, { method, ...(method === 'POST' ? { json } : {}) });
    const [served, refused] = role === 'read' ? [read, write] : [write, read];
    expect((await ask(served)).status).not.toBe(421);
    const refusal = await ask(refused);
    expectProblem(refusal, 421, 'wrong_role');
    expect(refusal.body.role).toBe(role);
  });

  test.each(['/livez', '/readyz', '/errors/sold_out'])('%s is served by both', async (path) => {
    for (const url of [read, write]) expect((await send(url + path)).status).toBe(200);
  });

  test('unknown paths and methods are answered as ever', async () => {
    for (const url of [read, write]) {
      expectProblem(await send(`${url}/nothing`), 404, 'not_found');
      expectProblem(await send(`${url}/flash-sale/checkout`, { method: 'PATCH', json: {} }), 405, 'method_not_allowed');
    }
  });
});

describe('what proxies send to readers', () => {
  const SHOPPERS = /^\/(flash-sale|coupons|sale|assets)\//;
  const routes = async () => {
    const { paths } = (await send(`${read}/openapi.json`)).body;
    const documented = Object.entries<object>(paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => ({ method, path })),
    );
    const others = ['/flash-sale/ws', '/sale/shoes', '/sale/shoes/start.ics'].map((path) => ({ method: 'get', path }));
    return [...documented, ...others] as { method: 'get' | 'post'; path: string }[];
  };
  const textOf = (name: string) => readFileSync(join(projectRoot(), 'deploy', name), 'utf8');

  test('is what readers serve: HAProxy', async () => {
    const acls = [...textOf('compose/haproxy.cfg').matchAll(/^ *acl reads path (?:-m beg )?(.*)$/gm)];
    const begins = acls.flatMap(([line, paths]) => (line.includes('-m beg') ? String(paths).split(' ') : []));
    const sent = (await routes()).filter(({ path }) => roleOfRoute({ method: 'get', path }) !== 'all');
    expect(sent.length).toBeGreaterThan(20);
    for (const { method, path } of sent) {
      const isSent = path === '/' || begins.some((begin) => path.startsWith(begin));
      expect({ method, path, isSent }).toEqual({ method, path, isSent: roleOfRoute({ method, path }) === 'read' });
    }
  });

  test('is what readers serve: the Ingress of the chart', async () => {
    const { paths, readPaths } = parse(textOf('helm/values.yaml')).ingress as Record<string, string[]>;
    const isBelow = (path: string, all: string[] = []) => all.some((one) => `${path}/`.startsWith(`${one}/`));
    const sent = (await routes()).filter(({ path }) => SHOPPERS.test(path) && !path.startsWith('/assets'));
    expect(sent.length).toBeGreaterThan(15);
    for (const { method, path } of sent) {
      expect(isBelow(path, paths)).toBe(true);
      const isSent = isBelow(path, readPaths);
      expect({ method, path, isSent }).toEqual({ method, path, isSent: roleOfRoute({ method, path }) === 'read' });
    }
  });
});

test('a sale over both: a checkout by one, the place by the other, and leaving the line over a socket', async () => {
  const product = await operator.openCampaign(withLine);
  const first = arrive(write, product);
  expect((await first.checkout()).status).toBe(200);
  const waiting = arrive(write, product);
  expect((await waiting.checkout()).status).toBe(202);
  expect((await statusOf(read, product, waiting.user)).data).toMatchObject({ status: 'queued', position: 1 });

  const socket = await openSocket(read, String(waiting.ticket));
  await until('it is welcome', () => socket.frames.some(({ type }) => type === 'welcome'));
  socket.send({ type: 'leave' });
  await until('it has left', () => socket.frames.some(({ type }) => type === 'left'));
  expect((await statusOf(read, product, waiting.user)).data.status).toBe('left');
  socket.send({ type: 'leave' });
  const left = () => socket.frames.filter(({ type }) => type === 'left').length;
  await until('a repetition is answered as the first', () => left() === 2);
});

test('who holds a unit cannot leave the line', async () => {
  const product = await operator.openCampaign(withLine);
  const holder = arrive(write, product);
  await holder.checkout();
  const socket = await openSocket(read, String(holder.ticket));
  await until('it is welcome', () => socket.frames.some(({ type }) => type === 'welcome'));
  socket.send({ type: 'leave' });
  await until('it is refused', () => socket.frames.some(({ code }) => code === 'not_waiting'));
  expect((await statusOf(read, product, holder.user)).data.status).toBe('completed');
});

test('a promotion reaches a socket of a process that reads', async () => {
  const product = await operator.openCampaign(withLine);
  const held = String((await arrive(write, product).checkout()).data.reservation_id);
  const waiting = arrive(write, product);
  await waiting.checkout();
  const socket = await openSocket(read, String(waiting.ticket));
  await until('it is welcome', () => socket.frames.some(({ type }) => type === 'welcome'));
  await new PaymentService(write).release(held);
  await until('it is promoted', () => socket.frames.some(({ type }) => type === 'promoted'));
});

describe('a guesser at readers and writers is refused no later than at an API that serves all', () => {
  /** How many guesses were judged before the first that was not. */
  async function guesses(urls: [string, string], address: string, userOf: (i: number) => string, most = 40) {
    for (let i = 0; i < most; i += 1) {
      const isValidated = i % 2 === 0;
      const json = { code: `GUESS${randomUUID().slice(0, 8).toUpperCase()}`, user_id: userOf(i) };
      const { status } = await send(urls[i % 2] + (isValidated ? '/coupons/validate' : '/coupons/redeem'), {
        method: 'POST',
        headers: { 'x-forwarded-for': address },
        json: isValidated ? json : { ...json, order_id: 'o', idempotency_key: randomUUID() },
      });
      if (status === 429) return i;
      expect(status).toBe(404);
    }
    return most;
  }
  test('as many users', async () => {
    const { url: all } = await startApiProcess({ ...service.env, API_ROLE: 'all' });
    expect(await guesses([all, all], '198.51.100.20', (i) => `all-${i}`)).toBe(20);
    expect(await guesses([read, write], '203.0.113.20', (i) => `both-${i}`)).toBe(20);
  });

  test('as one user, who gets a cooldown at both', async () => {
    const code = `ROLE${randomUUID().slice(0, 8).toUpperCase()}`;
    await operator.openCampaign({ code, total_limit: 100 });
    const at = (url: string, path: string, user_id: string, fields: object = {}) =>
      send(url + path, {
        method: 'POST',
        headers: { 'x-forwarded-for': '203.0.113.21' },
        json: { code, user_id, ...fields },
      });
    await until('the code is known', async () => (await at(read, '/coupons/validate', 'someone')).status === 200);
    const most = LIMITS.abuse.failuresBeforeWait;
    expect(await guesses([read, write], '203.0.113.21', () => 'guesser', most)).toBe(most);
    const isRefused = async (url: string, path: string, fields: object) =>
      (await at(url, path, 'guesser', fields)).body.policy === 'cooldown';
    const claim = { order_id: 'o', idempotency_key: randomUUID() };
    await until('readers refuse the user', () => isRefused(read, '/coupons/validate', {}));
    await until('writers refuse the user', () => isRefused(write, '/coupons/redeem', claim));
  });
});

test('a network that has used up its limit at one role needs a proof of work at the other', async () => {
  const code = `ROLE${randomUUID().slice(0, 8).toUpperCase()}`;
  const call = (url: string, path: string, json: object, from = '198.51.100.99') =>
    send(url + path, { method: 'POST', headers: { 'x-forwarded-for': from }, json });
  const check = (from?: string) => call(read, '/coupons/validate', { code, user_id: `user-${randomUUID()}` }, from);
  for (let i = 0; i < 20; i += 1) {
    const json = {
      code: `NONE${i}OF${Date.now()}`,
      user_id: `guesser-${i}`,
      order_id: 'o',
      idempotency_key: randomUUID(),
    };
    expect((await call(write, '/coupons/redeem', json)).status).toBe(404);
  }
  // Only now, because invented codes would need a proof of work themselves at unusual hours.
  await operator.openCampaign({ code, total_limit: 100, risk: 'enforce', limits: { unusual_hours: null } });
  await until('the reader has heard of it', async () => (await check()).status === 403);
  expectProblem(await check(), 403, 'challenge_required');
  await until('another network is served', async () => (await check('198.51.100.98')).status === 200);
});

test('a worker in the same environment starts', async () => {
  const worker = await startWorkerProcess({ ...service.env, API_ROLE: 'read' });
  await worker.stop();
});

test('operators find the page of a sale beside their own', async () => {
  const port = await freePort();
  await startApiProcess({ ...service.env, OPS_PORT: String(port) });
  const product = await operator.openCampaign({ total_limit: 1 });
  for (const path of ['/admin', `/sale/${product}`])
    expect([path, (await send(`http://127.0.0.1:${port}${path}`)).status]).toEqual([path, 200]);
});

describe('the command', () => {
  const main = join(projectRoot(), 'dist/api/main.js');
  const run = (args: string[], env: NodeJS.ProcessEnv = {}) =>
    new Promise<{ code: number; text: string }>((resolve) => {
      execFile(process.execPath, [main, ...args], { env: { ...service.env, ...env } }, (error, stdout, stderr) =>
        resolve({ code: error ? Number(error.code) : 0, text: stdout + stderr }),
      );
    });

  test('takes the role as an argument, and says what is wrong with it', async () => {
    expect((await run(['--help'])).text).toContain('--role');
    expect(await run(['--role', 'both'])).toMatchObject({
      code: 1,
      text: expect.stringContaining('must be one of all, read, write'),
    });
    expect(await run(['--role', 'read'])).toMatchObject({
      code: 1,
      text: expect.stringContaining('API_WRITE_URL is missing'),
    });
    expect(await run(['--role', ''])).toMatchObject({ code: 1, text: expect.stringContaining('--role has no value') });
    for (const url of ['http://write/?x=1', 'http://user:password@write', 'ftp://write']) {
      const { code, text } = await run([], { API_WRITE_URL: url });
      expect([url, code, text]).toEqual([url, 1, expect.stringContaining('API_WRITE_URL')]);
    }
    expect(await run(['--rule', 'read'])).toMatchObject({
      code: 1,
      text: expect.stringContaining("Unknown option '--rule'"),
    });
  });
});
