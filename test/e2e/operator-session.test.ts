import { describe, expect, test } from '@jest/globals';
import { newAddress } from '../harness/addresses.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { ADMIN_SECRET, SERVICE_SECRET, sharedService, startApiProcess } from '../harness/service.js';

/**
 * Logging in with a browser: the cookie, what it opens, and what it must not. Each login comes from a network of its
 * own.
 */
const service = await sharedService();
const product = await new Operator(service.url).openCampaign({ total_limit: 10 });
const fromPage = (url = service.url) => ({ origin: url, 'x-operator-page': '1' });

function login(key: unknown, headers: Record<string, string> = {}, url = service.url): Promise<Answer> {
  return send(`${url}/admin/session`, {
    method: 'POST',
    headers: { ...fromPage(url), 'x-forwarded-for': newAddress(), ...headers },
    json: { key },
  });
}
const cookieLine = (answer: Answer) => String(answer.headers.get('set-cookie'));
const cookieOf = (answer: Answer) => String(cookieLine(answer).split(';')[0]);

async function cookie(url = service.url): Promise<string> {
  const answer = await login(ADMIN_SECRET, {}, url);
  expect(answer.status).toBe(200);
  return cookieOf(answer);
}
const call = (method: string, path: string, headers: Record<string, string>, url = service.url) =>
  send(`${url}${path}`, { method, headers });

const refusedLogins = async () =>
  Number(/^doorbuster_limited_total\{policy="login"\} (\d+)$/m.exec(await metricsText(service.url))?.[1] ?? 0);

describe('logging in', () => {
  test('opens a session that ends, for the key, in a cookie that no script and no other site can use', async () => {
    const answer = await login(ADMIN_SECRET);
    expect(answer.data).toMatchObject({ operator: 'tester', max_buckets: 1 });
    const hours = (Date.parse(String(answer.data.expires_at)) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(7);
    expect(hours).toBeLessThan(9);
    expect(cookieLine(answer)).toMatch(
      /^doorbuster_operator=[\w.-]+; Path=\/admin; Max-Age=28800; HttpOnly; SameSite=Strict$/,
    );
    expect(answer.text + cookieLine(answer)).not.toContain(ADMIN_SECRET);
    expect((await call('GET', '/admin/session', { cookie: cookieOf(answer) })).data).toEqual(answer.data);
  });

  test('marks the cookie as secure where the browser came over TLS', async () => {
    const answer = await login(ADMIN_SECRET, { 'x-forwarded-proto': 'https' });
    expect(cookieLine(answer)).toMatch(
      /^__Host-doorbuster_operator=[\w.-]+; Path=\/; Secure; Max-Age=28800; HttpOnly; SameSite=Strict$/,
    );
  });

  test('is refused with a wrong key, with the key of a service, and with none', async () => {
    for (const key of [`${ADMIN_SECRET}x`, ADMIN_SECRET.slice(1), SERVICE_SECRET, `tester:${ADMIN_SECRET}`]) {
      const refused = await login(key);
      expectProblem(refused, 401, 'unauthorized');
      expect(refused.headers.get('set-cookie')).toBeNull();
    }
    for (const key of ['', null, true, 7, [], [ADMIN_SECRET], {}, undefined, 'x'.repeat(2_000)])
      expectProblem(await login(key), 400, 'invalid_request');
  });

  test('refuses wrong keys with Retry-After after ten from one network, and always accepts a right one', async () => {
    const before = await refusedLogins();
    const network = { 'x-forwarded-for': newAddress() };
    const guesses = await Promise.all(Array.from({ length: 10 }, (_, i) => login(`guess-${i}`, network)));
    expect(guesses.map(({ status }) => status)).toEqual(Array(10).fill(401));
    for (const key of ['guess-11', 'guess-12']) {
      const refused = await login(key, network);
      expectProblem(refused, 429, 'rate_limited');
      expect(refused.body.policy).toBe('login');
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect((await login(ADMIN_SECRET, network)).status).toBe(200);
    expectProblem(await login('guess-1'), 401, 'unauthorized');
    expect((await refusedLogins()) - before).toBe(2);
  });

  test('cannot be done by another site in a user’s browser', async () => {
    const others: Record<string, string>[] = [
      { origin: 'https://elsewhere.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site', origin: service.url },
    ];
    for (const headers of others) expectProblem(await login(ADMIN_SECRET, headers), 403, 'forbidden');
  });
});

describe('a session', () => {
  test('reads and changes what a bearer may, and is named in the audit log', async () => {
    const headers = { cookie: await cookie() };
    for (const path of ['', `/${product}`, `/${product}/stats`, `/${product}/line`, `/${product}/codes`]) {
      expect([path, (await call('GET', `/admin/campaigns${path}`, headers)).status]).toEqual([path, 200]);
    }
    const paused = await call('POST', `/admin/campaigns/${product}/pause`, { ...headers, ...fromPage() });
    expect([paused.status, paused.data.status]).toEqual([200, 'paused']);
    const ban = await send(`${service.url}/admin/bans`, {
      method: 'POST',
      headers: { ...headers, ...fromPage() },
      json: { kind: 'user', subject: 'reseller-1', reason: 'resells' },
    });
    expect([ban.status, ban.data.actor]).toEqual([201, 'tester']);
  });

  test('is of no use to another site, nor to a form, whatever it calls', async () => {
    const own = { cookie: await cookie() };
    const others: Record<string, string>[] = [
      {},
      { 'x-operator-page': '1' },
      { origin: service.url },
      { ...fromPage(), origin: 'https://elsewhere.example' },
      { ...fromPage(), origin: service.url.replace('http:', 'https:').replace(/\d$/, '0') },
      { ...fromPage(), origin: 'null' },
      { ...fromPage(), 'sec-fetch-site': 'cross-site' },
      { ...fromPage(), 'sec-fetch-site': 'same-site' },
      { ...fromPage(), 'sec-fetch-site': 'none' },
    ];
    for (const headers of others) {
      for (const [method, path] of [
        ['POST', `/admin/campaigns/${product}/close`],
        ['POST', `/admin/campaigns/${product}/reconcile`],
        ['PATCH', `/admin/campaigns/${product}`],
        ['DELETE', '/admin/bans/01a1fd74-6d3c-7ad3-9e5a-3410cf6cb1c5'],
      ] as const)
        expectProblem(await call(method, path, { ...own, ...headers }), 403, 'forbidden');
    }
    // Behind a proxy Host is another; then the browser's own word decides.
    const proxied = { ...own, ...fromPage('https://shop.example'), 'sec-fetch-site': 'same-origin' };
    expect((await call('POST', `/admin/campaigns/${product}/resume`, proxied)).data.status).toBe('open');
  });

  test('opens nothing beside what operators may: not the calls of a payment service', async () => {
    const headers = { cookie: await cookie(), ...fromPage() };
    expectProblem(await call('POST', '/flash-sale/confirm', headers), 401, 'unauthorized');
  });

  test('is not looked at beside a bearer, wrong or right', async () => {
    const own = await cookie();
    const wrong = { cookie: own, authorization: 'Bearer wrong-secret-of-nobody' };
    expectProblem(await call('GET', '/admin/campaigns', wrong), 401, 'unauthorized');
    const right = { cookie: `${own}x`, authorization: `Bearer ${ADMIN_SECRET}` };
    expect((await call('POST', `/admin/campaigns/${product}/resume`, right)).status).toBe(200);
  });

  test('is not believed when it was changed in any way', async () => {
    const own = await cookie();
    const [name, value = ''] = own.split('=');
    const [expires = '', mac = ''] = value.split('.');
    const later = (Number.parseInt(expires, 36) + 3_600_000).toString(36);
    const forged = [
      '',
      '.',
      expires,
      `${expires}.`,
      `${later}.${mac}`,
      `${expires}.${mac.slice(0, -1)}`,
      `${expires}.${mac}.${mac}`,
      `${expires}.${'A'.repeat(mac.length)}`,
      `${expires.toUpperCase()}.${mac}`,
    ];
    for (const text of forged)
      expectProblem(await call('GET', '/admin/session', { cookie: `${name}=${text}` }), 401, 'unauthorized');
    // Another host of the domain may have put one in front of it.
    expect((await call('GET', '/admin/session', { cookie: `a=b; ${name}=forged; ${own}` })).status).toBe(200);
  });

  test('ends with the browser’s cookie at logout, and again', async () => {
    const own = await cookie();
    for (let times = 0; times < 2; times += 1) {
      const answer = await call('DELETE', '/admin/session', { cookie: own, ...fromPage() });
      expect(answer.status).toBe(200);
      expect(cookieLine(answer)).toMatch(/^doorbuster_operator=; Path=\/admin; Max-Age=0; HttpOnly; SameSite=Strict$/);
    }
    expectProblem(await call('DELETE', '/admin/session', { cookie: own }), 403, 'forbidden');
  });

  test('is good in every process with the same keys, and in none whose keys are others', async () => {
    const own = { cookie: await cookie() };
    const withKeys = async (extra: NodeJS.ProcessEnv) => {
      const { process, url } = await startApiProcess({ ...service.env, ...extra });
      const { status } = await call('GET', '/admin/session', own, url);
      await process.stop();
      return status;
    };
    const others = 'second:another-secret-of-the-tests';
    expect(await withKeys({})).toBe(200);
    expect(await withKeys({ ADMIN_API_KEYS: `${others},tester:${ADMIN_SECRET}` })).toBe(200);
    expect(await withKeys({ ADMIN_API_KEYS: others })).toBe(401);
    expect(await withKeys({ ADMIN_API_KEYS: `tester:${ADMIN_SECRET}-rotated` })).toBe(401);
    const fresh = `t2:${Buffer.alloc(32, 5).toString('base64')}`;
    expect(await withKeys({ TICKET_KEYS: `${fresh},${service.env.TICKET_KEYS}` })).toBe(200);
    expect(await withKeys({ TICKET_KEYS: fresh })).toBe(401);
  });
});

describe('the dashboard of jobs', () => {
  const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

  test('leads a browser to the login, and refuses other clients with the missing key', async () => {
    for (const path of ['/admin/queues', '/admin/queues/', '/admin/queues/queue/promote']) {
      const led = await fetch(`${service.url}${path}`, { headers: html, redirect: 'manual' });
      expect([path, led.status, led.headers.get('location')]).toEqual([path, 303, '/admin?then=queues']);
      expectProblem(await call('GET', path, {}), 401, 'unauthorized');
      expectProblem(await call('GET', path, { authorization: `Bearer ${SERVICE_SECRET}` }), 403, 'forbidden');
    }
    expectProblem(await call('GET', '/admin/queues/api/queues', {}), 401, 'unauthorized');
  });

  test('opens with a session and with a bearer, under a policy that runs no script but its own', async () => {
    for (const headers of [{ cookie: await cookie() }, { authorization: `Bearer ${ADMIN_SECRET}` }]) {
      const page = await call('GET', '/admin/queues', { ...html, ...headers } as Record<string, string>);
      expect(page.status).toBe(200);
      expect(page.headers.get('content-security-policy')).toContain("script-src 'self';");
      expect(page.headers.get('x-powered-by')).toBeNull();
      const scripts = [...page.text.matchAll(/<script[^>]*\bsrc="([^"]+)"/g)].map(([, path]) => String(path));
      expect(scripts.length).toBeGreaterThan(1);
      for (const path of scripts)
        expect((await call('GET', `/admin/queues/${path}`, headers as Record<string, string>)).status).toBe(200);
      const { body } = await call('GET', '/admin/queues/api/queues', headers as Record<string, string>);
      expect((body.queues as { name: string; readOnlyMode: boolean }[]).map(({ name }) => name)).toContain('promote');
      expect((body.queues as { readOnlyMode: boolean }[]).every(({ readOnlyMode }) => readOnlyMode)).toBe(true);
    }
  });

  test('is for looking only: no queue can be paused, emptied or filled through it', async () => {
    const headers = { cookie: await cookie(), ...fromPage() };
    for (const [method, path] of [
      ['PUT', 'pause'],
      ['PUT', 'empty'],
      ['PUT', 'obliterate'],
      ['POST', 'add'],
      ['PUT', 'retry/failed'],
    ] as const) {
      const refused = await call(method, `/admin/queues/api/queues/persist/${path}`, headers);
      expectProblem(refused, 405, 'method_not_allowed');
    }
    expectProblem(await call('GET', '/admin/queues/nothing/of/this', headers), 404, 'not_found');
  });
});

test('neither the key nor a session is written to the log', async () => {
  const own = await cookie();
  const text = service.api.log.join('\n');
  expect(text).toContain('"operator.login"');
  for (const secret of [ADMIN_SECRET, own.split('=')[1] as string]) expect(text).not.toContain(secret);
});
