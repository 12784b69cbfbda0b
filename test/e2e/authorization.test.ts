import { createHmac } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem } from '../harness/checks.js';
import { Operator, send } from '../harness/clients.js';
import { request } from '../harness/raw-http.js';
import { ADMIN_SECRET, SERVICE_SECRET, sharedService, startApiProcess } from '../harness/service.js';
import { arrive } from '../harness/shoppers.js';

const service = await sharedService();
const product = await new Operator(service.url).openCampaign({ total_limit: 10, hold_seconds: 900 });
const bought = await arrive(service.url, product).checkout();
const ticket = String(bought.data.ticket);

type Scheme = 'adminKey' | 'serviceKey' | 'ticket';
type Guarded = { method: string; path: string; schemes: Scheme[] };

/** Every route that names a security scheme in /openapi.json, so that a new one cannot be forgotten here. */
async function guardedRoutes(): Promise<Guarded[]> {
  const { body } = await request(service.url, { path: '/openapi.json' });
  const paths = body.paths as Record<string, Record<string, { security?: Partial<Record<Scheme, []>>[] }>>;
  return Object.entries(paths)
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { security = [] }]) => ({
        method: method.toUpperCase(),
        path: path.replace(/\{\w+\}/g, product),
        schemes: security.flatMap((scheme) => Object.keys(scheme) as Scheme[]),
      })),
    )
    .filter(({ schemes }) => schemes.length > 0);
}

const routes = await guardedRoutes();
const guardedBy = (scheme: Scheme) => routes.filter(({ schemes }) => schemes.includes(scheme));

/** A call with these credentials and a body that is no JSON: an unauthorized caller does not learn that. */
function call({ method, path }: Guarded, headers: Record<string, string>) {
  const json = { 'content-type': 'application/json' };
  return request(service.url, {
    method,
    path,
    headers: { ...json, ...headers },
    ...(method === 'GET' ? {} : { body: '{' }),
  });
}

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });
const WRONG = [
  {},
  bearer('wrong-secret-of-nobody'),
  bearer(''),
  bearer(`${ADMIN_SECRET}x`),
  bearer(ADMIN_SECRET.slice(0, -1)),
  bearer(ADMIN_SECRET.toUpperCase()),
  bearer(`${ADMIN_SECRET} ${ADMIN_SECRET}`),
  { authorization: ADMIN_SECRET },
  { authorization: SERVICE_SECRET },
  { authorization: `Basic ${Buffer.from(`tester:${ADMIN_SECRET}`).toString('base64')}` },
  { authorization: `Bearer tester:${ADMIN_SECRET}` },
  { 'x-api-key': ADMIN_SECRET },
  { cookie: `authorization=Bearer ${ADMIN_SECRET}` },
  bearer('x'.repeat(4_000)),
] as Record<string, string>[];

test('the description names the guarded routes that there are', () => {
  expect(guardedBy('adminKey').length).toBeGreaterThanOrEqual(11);
  expect(
    guardedBy('serviceKey')
      .map(({ path }) => path)
      .sort(),
  ).toEqual(expect.arrayContaining(['/flash-sale/confirm', '/flash-sale/refund', '/flash-sale/release']));
  expect(
    guardedBy('ticket')
      .map(({ path }) => path)
      .sort(),
  ).toEqual(expect.arrayContaining(['/flash-sale/queue', '/flash-sale/release']));
  // Nothing under /admin is public.
  expect(guardedBy('adminKey').every(({ path }) => path.startsWith('/admin'))).toBe(true);
});

describe('every admin route', () => {
  test('answers 401 with WWW-Authenticate without a key or with a wrong one', async () => {
    for (const route of guardedBy('adminKey')) {
      for (const headers of [...WRONG, { 'x-ticket': ticket }]) {
        const refused = await call(route, headers);
        expectProblem(refused, 401, 'unauthorized');
        expect(refused.headers.get('www-authenticate')).toMatch(/^Bearer\b/);
      }
    }
  });

  test('answers 403 to a service', async () => {
    for (const route of guardedBy('adminKey'))
      expectProblem(await call(route, bearer(SERVICE_SECRET)), 403, 'forbidden');
  });

  test('lets an operator in, however the scheme is written', async () => {
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      const answer = await request(service.url, {
        path: '/admin/campaigns',
        headers: { authorization: `${scheme} ${ADMIN_SECRET}` },
      });
      expect(answer.status).toBe(200);
    }
  });
});

describe('every service route', () => {
  test('answers 401 with WWW-Authenticate without a key or with a wrong one', async () => {
    for (const route of guardedBy('serviceKey')) {
      for (const headers of WRONG) {
        const refused = await call(route, headers);
        expectProblem(refused, 401, 'unauthorized');
        expect(refused.headers.get('www-authenticate')).toMatch(/./);
      }
    }
  });

  test('answers 403 to an operator', async () => {
    for (const route of guardedBy('serviceKey'))
      expectProblem(await call(route, bearer(ADMIN_SECRET)), 403, 'forbidden');
  });

  test('does not take a ticket instead of the key, but for a release', async () => {
    for (const route of guardedBy('serviceKey').filter(({ schemes }) => !schemes.includes('ticket'))) {
      expectProblem(await call(route, { 'x-ticket': ticket }), 401, 'unauthorized');
    }
  });

  test('is not opened by a ticket beside a wrong key', async () => {
    for (const route of guardedBy('serviceKey')) {
      expectProblem(
        await call(route, { ...bearer('wrong-secret-of-nobody'), 'x-ticket': ticket }),
        401,
        'unauthorized',
      );
    }
  });
});

describe('every ticket route', () => {
  test('answers 401 with WWW-Authenticate to a ticket that is not ours', async () => {
    const bad = [
      '',
      'x',
      '...',
      `${ticket}x`,
      ticket.replace(/^t1/, 't2'),
      ticket.replace(/\.[^.]+$/, `.${'A'.repeat(22)}`),
      'x'.repeat(4_000),
    ];
    for (const route of guardedBy('ticket')) {
      for (const forged of bad) {
        const refused = await call(route, { 'x-ticket': forged });
        expectProblem(refused, 401, 'ticket_invalid');
        expect(refused.headers.get('www-authenticate')).toMatch(/./);
      }
    }
  });
});

describe('with SHOPPER_JWT_SECRET', () => {
  const SECRET = 'a-secret-of-the-login-service-of-the-tests';
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const jwt = (claims: object, alg = 'HS256', secret = SECRET) => {
    const signed = `${encode({ alg, typ: 'JWT' })}.${encode(claims)}`;
    return `${signed}.${alg === 'none' ? '' : createHmac('sha256', secret).update(signed).digest('base64url')}`;
  };

  test('a shopper needs a JWT with their user_id as sub, for checkout and queue-status', async () => {
    const { url } = await startApiProcess({ ...service.env, SHOPPER_JWT_SECRET: SECRET });
    const shopper = arrive(url, product, 'ani');
    const in1h = Math.floor(Date.now() / 1000) + 3_600;
    const buy = (headers: Record<string, string>) => {
      const json = { product_id: product, user_id: 'ani', qty: 1, ...shopper.token, idempotency_key: 'key-of-ani-1' };
      return send(`${url}/flash-sale/checkout`, { method: 'POST', headers, json });
    };
    const refusedTokens = [
      jwt({ sub: 'ani' }, 'HS256', `${SECRET}!`),
      jwt({ sub: 'ani' }, 'none'),
      jwt({ sub: 'ani', exp: in1h - 7_200 }),
      jwt({ sub: 'ani', nbf: in1h }),
      jwt({ exp: in1h }),
      jwt({ sub: 'ani' }),
      'a.b.c',
      SERVICE_SECRET,
    ];
    for (const headers of [{}, ...refusedTokens.map(bearer)] as Record<string, string>[]) {
      for (const refused of [await buy(headers), await shopper.queueStatus(headers)]) {
        expectProblem(refused, 401, 'unauthorized');
        expect(refused.headers.get('www-authenticate')).toMatch(/^Bearer\b/);
      }
    }
    const somebodyElse = bearer(jwt({ sub: 'budi', exp: in1h }));
    for (const refused of [await buy(somebodyElse), await shopper.queueStatus(somebodyElse)]) {
      expectProblem(refused, 403, 'forbidden');
    }
    // None of the refusals was remembered for the key.
    expect((await buy(bearer(jwt({ sub: 'ani', exp: in1h })))).status).toBe(200);
    expect((await shopper.queueStatus(bearer(jwt({ sub: 'ani', exp: in1h })))).data.status).toBe('completed');
  });
});

test('no secret and no ticket is written to the log', async () => {
  for (const { log } of [service.api, service.worker]) {
    const text = log.join('\n');
    for (const secret of [ADMIN_SECRET, SERVICE_SECRET, ticket]) expect(text).not.toContain(secret);
  }
  expect(service.api.log.length).toBeGreaterThan(0);
});
