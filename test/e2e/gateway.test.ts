import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, PaymentService, send } from '../harness/clients.js';
import { itBehindNginx as behindNginx, startNginx } from '../harness/nginx.js';
import { behindApi, sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';
import { openSocket } from '../harness/sockets.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

/** nginx with its firewall, before APIs of each role. `npm test -- --gateway` puts the same before all other tests. */
const service = await behindApi(await sharedService(), { API_ROLE: 'write' });
const { url: read } = await startApiProcess({ ...service.env, API_ROLE: 'read', API_WRITE_URL: service.url });
const operator = new Operator(service.url);
const gateway = (change?: (text: string) => string) =>
  startNginx({ read, write: service.url, firewall: true, ...(change ? { change } : {}) });

behindNginx('each request gets to its role', async () => {
  const { url } = await gateway();
  const product = await operator.openCampaign({ total_limit: 1, hold_seconds: 900, waiting_room: { enabled: true } });
  const first = arrive(url, product);
  const held = await first.checkout();
  expect(held.status).toBe(200);
  const waiting = arrive(url, product);
  expect((await waiting.checkout()).status).toBe(202);
  const status = await send(`${url}/flash-sale/queue-status?product_id=${product}&user_id=${waiting.user}`);
  expect(status.data).toMatchObject({ status: 'queued', position: 1 });
  const socket = await openSocket(url, String(waiting.ticket));
  await until('it is welcome', () => socket.frames.some(({ type }) => type === 'welcome'));
  await new PaymentService(service.url).release(String(held.data.reservation_id));
  await until('it is promoted', () => socket.frames.some(({ type }) => type === 'promoted'));
  for (const path of [
    ...[`/flash-sale/campaign?product_id=${product}`, `/sale/${product}`, '/docs', '/openapi.json'],
    ...[`/flash-sale/token?device_fp=phone&product_id=${product}`, '/errors/sold_out'],
  ])
    expect([path, (await send(url + path)).status]).toEqual([path, 200]);
  for (const path of ['/admin', '/admin/campaigns', '/metrics', '/readyz'])
    expect([path, (await send(url + path)).status]).toEqual([path, 404]);
});

behindNginx('no path of the interface goes to the wrong role', async () => {
  const { url } = await gateway();
  const { paths } = (await send(`${read}/openapi.json`)).body;
  const all = Object.entries<object>(paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => ({ method: method.toUpperCase(), path: path.replace(/{\w+}/g, 'none') })),
  );
  expect(all.length).toBeGreaterThan(50);
  for (const { method, path } of all) {
    const { status } = await send(url + path, { method, ...(method === 'GET' ? {} : { json: {} }) });
    expect([method, path, status === 421 || status >= 500]).toEqual([method, path, false]);
  }
});

describe('the firewall', () => {
  const anything = { product_id: 'shoes', user_id: 'ana', qty: 1, idempotency_key: 'the-first-key' };
  const attacks: [string, string, RequestInit & { json?: unknown }][] = [
    ['SQL in a query', '/flash-sale/queue-status?product_id=1%27%20OR%20%271%27=%271%27--&user_id=a', {}],
    ['a path of files', '/flash-sale/campaign?product_id=../../../../etc/passwd', {}],
    ['a script', '/sale/shoes?lang=%3Cscript%3Ealert(1)%3C/script%3E', {}],
    ['a scanner', '/flash-sale/campaign?product_id=shoes', { headers: { 'user-agent': 'sqlmap/1.7' } }],
    ['a command in JSON', '/flash-sale/checkout', { json: { ...anything, user_id: ';cat /etc/passwd;id' } }],
    ['SQL in JSON', '/coupons/validate', { json: { code: "x' UNION SELECT password FROM users--", user_id: 'a' } }],
  ];
  behindNginx.each(attacks)('refuses %s', async (_, path, options) => {
    const { url } = await gateway();
    const { json, ...rest } = options;
    const answer = await send(url + path, { ...rest, ...(json ? { method: 'POST', json } : {}) });
    expect([answer.status, answer.body.code]).toEqual([403, 'forbidden']);
    expectProblem(answer, 403, 'forbidden');
    // The server itself has nothing to fear of it.
    const direct = (path.startsWith('/coupons/validate') || !json ? read : service.url) + path;
    expect((await send(direct, { ...rest, ...(json ? { method: 'POST', json } : {}) })).status).toBeLessThan(500);
  });

  behindNginx('lets pass what people are called and what they buy', async () => {
    const { url } = await gateway();
    const code = `SAVE${randomUUID().slice(0, 8).toUpperCase()}`;
    const discount = { kind: 'percent', percent: 10 };
    const product = await operator.openCampaign({ code, total_limit: 100, discount });
    const names = ['siobhan.o-brien@shop.example', 'select@union.example', 'auth0:5f7c8ec7c33c', 'drop_table'];
    for (const [i, user] of names.entries()) {
      const metadata = {
        note: `It's 20% off & "free" -- isn't it? <b>1=1</b>; select a shoe from the left`,
        url: 'https://shop.example/cart?id=1&next=/checkout#../../a',
      };
      const bought = await send(`${url}/flash-sale/checkout`, {
        method: 'POST',
        json: {
          ...{ product_id: product, user_id: user, qty: 1, idempotency_key: randomUUID(), metadata },
          ...freshToken(`fp-${i}`),
        },
      });
      expect([user, bought.status]).toEqual([user, 200]);
      const items = [{ sku: 'T-SHIRT/XL <blue>', category: 'men & women', quantity: 2, price: 1_999 }];
      const cart = { subtotal: 3_998, currency: 'EUR', items };
      const valid = await send(`${url}/coupons/validate`, { method: 'POST', json: { code, user_id: user, cart } });
      expect([user, valid.status, valid.body.code]).toEqual([user, 409, 'already_redeemed']);
    }
  });

  behindNginx('does not look into what payment services send', async () => {
    const { url } = await gateway();
    const json = { id: 'evt_1', description: "1' UNION SELECT 1 -- <script>" };
    const { status, body } = await send(`${url}/payments/stripe`, { method: 'POST', json });
    expect(body.code).not.toBe('forbidden');
    expect(status).not.toBe(403);
  });

  behindNginx('leaves it to the server to say what is wrong with a body', async () => {
    const { url, errors } = await gateway();
    const post = (body: string) =>
      send(`${url}/coupons/validate`, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    expectProblem(await post('{"code": '), 400, 'invalid_json');
    expectProblem(await post('{"code": "X"}'), 400, 'invalid_request');
    expect(readFileSync(errors, 'utf8')).not.toContain('[emerg]');
  });
});

behindNginx('a flood of one network is refused, and a problem document says so', async () => {
  const { url } = await gateway((text) =>
    text.replace('rate=2000r/s', 'rate=1r/m').replace('burst=4000 nodelay', 'burst=5 nodelay'),
  );
  const answers = await Promise.all(Array.from({ length: 40 }, () => send(`${url}/flash-sale/campaign?product_id=x`)));
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThanOrEqual(34);
  expectProblem(refused[0] as (typeof refused)[0], 429, 'rate_limited');
  expect(refused[0]?.body.policy).toBe('proxy');
  expect(refused[0]?.headers.get('retry-after')).toBe('1');
});
