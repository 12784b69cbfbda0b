import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import { bodyRoutes } from '../harness/body-routes.js';
import { expectProblem, expectStock, pointersOf } from '../harness/checks.js';
import { Operator } from '../harness/clients.js';
import { objectText } from '../harness/invalid-values.js';
import { request, requestJson } from '../harness/raw-http.js';
import { ADMIN_SECRET, sharedService } from '../harness/service.js';
import { arrive, forEachAtMost } from '../harness/shoppers.js';

// Invalid bodies; bad-requests.test.ts has invalid paths, methods and headers.

// The few callers of this file always send invalid requests, which the limits would stop.
const service = await sharedService();
const operator = new Operator(service.url);
const product = await operator.openCampaign({ total_limit: 100_000, hold_seconds: 900, per_user_limit: 1_000 });
const bought = await arrive(service.url, product).checkout();

const admin = { authorization: `Bearer ${ADMIN_SECRET}` };
const text = (value: unknown) => JSON.stringify(value);

const code = 'GOODFORALL';
const coupon = await operator.openCampaign({ code, total_limit: 100_000 });
const pool = await operator.openCampaign({ type: 'pool', total_limit: 10 });

const ROUTES = bodyRoutes({ product, reservationId: String(bought.data.reservation_id), code, pool });

/** test/integration/webhooks.test.ts, operator-session.test.ts and push.test.ts have the bodies of these routes. */
const COVERED_ELSEWHERE = /^(\/admin\/(webhooks|session)|\/flash-sale\/push)/;

test('every field of every body in /openapi.json is covered here', async () => {
  const { body } = await request(service.url, { path: '/openapi.json' });
  type Operation = { requestBody?: { content: { 'application/json': { schema: { $ref: string } } } } };
  const propertiesOf = ({ $ref }: { $ref: string }): object =>
    body.components.schemas[String($ref.split('/').at(-1))].properties;
  const described = Object.entries(body.paths as Record<string, Record<string, Operation>>).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { requestBody }]) =>
      requestBody && !COVERED_ELSEWHERE.test(path)
        ? [
            [
              `${method.toUpperCase()} ${path.replace('{user_id}', product).replace('{id}', path.endsWith('/codes') ? pool : product)}`,
              Object.keys(propertiesOf(requestBody.content['application/json'].schema)).sort(),
            ],
          ]
        : [],
    ),
  );
  const covered = ROUTES.map(({ method, path, fields }) => [`${method} ${path}`, Object.keys(fields).sort()]);
  expect(Object.fromEntries(described)).toEqual(Object.fromEntries(covered));
});

describe.each(ROUTES)('$method $name', ({ method, path, headers, good, fields, isLenient, wrong: wrongFor }) => {
  const sendText = (body: string | Buffer, more: Record<string, string> = {}) =>
    requestJson(service.url, method, path, body, { ...headers, ...more });

  test('refuses wrong values in every field, and points to it', async () => {
    const cases = Object.keys(fields).flatMap((field) => wrongFor(field).map((wrong) => ({ field, wrong })));
    await forEachAtMost(10, cases, async ({ field, wrong }) => {
      const answer = await sendText(objectText(good(), field, wrong), { 'x-request-id': 'bad-field' });
      expect(`${field}: ${wrong.slice(0, 40)} → ${answer.status} ${answer.text}`).toContain('→ 400');
      // An object in place of a value, or of another object, may have names that are not known there.
      expectProblem(answer, 400, wrong.includes('{"') && !isLenient ? answer.body.code : 'invalid_request');
      for (const pointer of pointersOf(answer)) expect(pointer).toMatch(new RegExp(`^#/${field}(/|$)`));
      expect(pointersOf(answer).length).toBeGreaterThan(0);
      expect(answer.headers.get('x-request-id')).toBe('bad-field');
    });
  });

  test('refuses a body that is no object', async () => {
    for (const body of ['null', 'true', '0', '"text"', '[]', '[{}]', `[${objectText(good())}]`]) {
      const answer = await sendText(body);
      expectProblem(answer, 400, 'invalid_request');
      expect(pointersOf(answer)).toEqual(['#']);
    }
  });

  test('refuses a body that is no JSON', async () => {
    const whole = objectText(good());
    const broken = [
      '',
      ' ',
      '{',
      whole.slice(0, -1),
      `${whole}x`,
      `${whole},`,
      `x${whole}`,
      whole.replace('{', "{'a':1,"),
      '{"a":NaN}',
      '{"a":Infinity}',
      '{"a":undefined}',
      '{"a":01}',
      '{"a":+1}',
      '{"a":.5}',
      '{"a":1.}',
      '{"a":0x1}',
      '{"a":"\\x41"}',
      '{"a":"\\u12"}',
      '{"a":"\n"}',
      '{"a":1,}',
      '// comment\n{}',
      '\u0000',
      '[',
      'nul',
      'product_id=a&user_id=b',
      '<a/>',
      '{"a":1}{"a":2}',
    ];
    await forEachAtMost(10, broken, async (body) => expectProblem(await sendText(body), 400, 'invalid_json'));
    for (const bytes of [
      Buffer.from([0xff, 0xfe]),
      Buffer.from(`{"a":"\xe9"}`, 'latin1'),
      Buffer.from(whole, 'utf16le'),
    ]) {
      expectProblem(await sendText(bytes), 400, 'invalid_json');
    }
    // Deeper than any parser's stack would be, were it recursive; too large in any case.
    expectProblem(await sendText('['.repeat(16_000)), 400, 'invalid_json');
  });

  test('refuses what is not sent as plain UTF-8 JSON with 415', async () => {
    const body = objectText(good());
    const types = [
      'text/plain',
      'text/json',
      'application/jsonx',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      '',
      'json',
      'application/json; charset=latin1',
      'application/json; charset=utf-16',
      'application/json; charset="iso-8859-1"',
      'application/xml',
    ];
    for (const type of types)
      expectProblem(await sendText(body, { 'content-type': type }), 415, 'unsupported_media_type');
    expectProblem(await request(service.url, { method, path, headers, body }), 415, 'unsupported_media_type');
    const zipped = await sendText(gzipSync(body), { 'content-encoding': 'gzip' });
    expectProblem(zipped, 415, 'unsupported_media_type');
    for (const encoding of ['br', 'deflate', 'gzip, gzip', 'nonsense']) {
      expectProblem(await sendText(body, { 'content-encoding': encoding }), 415, 'unsupported_media_type');
    }
  });

  test('refuses a body of 16 KiB and one byte with 413, also in chunks', async () => {
    const large = ' '.repeat(16 * 1024 + 1 - objectText({}).length) + objectText({});
    expectProblem(await sendText(large), 413, 'body_too_large');
    const json = { 'content-type': 'application/json', ...headers };
    const chunks = [large.slice(0, 9_000), large.slice(9_000)];
    expectProblem(
      await request(service.url, { method, path, headers: { ...json, 'transfer-encoding': 'chunked' }, chunks }),
      413,
      'body_too_large',
    );
  });

  test('ignores unknown fields of shoppers and refuses those of others, and takes a body of 16 KiB to the byte', async () => {
    const names = [
      'extra',
      '__proto__',
      'constructor',
      'prototype',
      'toString',
      'hasOwnProperty',
      '',
      '\u0000',
      'qty ',
      'QTY',
    ];
    const extra = Object.fromEntries(names.map((name) => [name, '{"qty":1000,"status":"open","isAdmin":true}']));
    const members = { ...good(), ...extra };
    const body = `{"__proto__":{"qty":1000,"total_limit":9},${objectText(members).slice(1)}`;
    const padded = body + ' '.repeat(16 * 1024 - Buffer.byteLength(body));
    const type = { 'content-type': 'Application/JSON;Charset=UTF-8' };
    const answer = await sendText(padded, type);
    if (!isLenient) {
      expectProblem(answer, 400, 'unknown_field');
      expect(pointersOf(answer)).toEqual(expect.arrayContaining(names.map((name) => `#/${name}`)));
      return;
    }
    // Either it was done, or refused for what the reservation is, never for its form.
    expect(`${answer.status} ${answer.body.code ?? ''}`).toMatch(/^(200 |201 |202 |409 reservation_)/);
  });
});

/** Bodies whose form is right and whose content nothing behind the API can keep. */
async function expectRefusedTerms(...bodies: string[]): Promise<void> {
  for (const body of bodies) {
    const refused = await requestJson(
      service.url,
      'POST',
      '/admin/campaigns',
      `{"product_id":"p-${randomUUID()}","total_limit":null,${body}}`,
      admin,
    );
    expect(`${body.slice(0, 60)} → ${refused.status} ${refused.text}`).toContain('→ 400');
    expectProblem(refused, 400, 'invalid_request');
  }
}

test('texts that cannot be stored are refused in free-form terms', () =>
  expectRefusedTerms(
    '"audience":{"a":"\\u0000"}',
    '"audience":{"\\u0000":1}',
    '"audience":{"a":"\\ud800"}',
    '"stacking":{"exclusive":true,"group":"\\ud800"}',
    `"audience":{"a":${'['.repeat(7_000)}${']'.repeat(7_000)}}`,
  ));

test('values that would be changed on the way are refused', () =>
  expectRefusedTerms(
    '"name":"\\ud800"',
    '"code":"\\udfff"',
    '"limits":{"surge_attempts_per_minute":1e400}',
    '"starts_at":"9999-12-31T23:59:59-23:59"',
  ));

test('a campaign that ended before 1970 sells nothing', async () => {
  const product_id = `p-${randomUUID()}`;
  const times = { starts_at: '1968-01-01T00:00:00Z', ends_at: '1969-01-01T00:00:00Z' };
  const created = await operator.call('POST', '/admin/campaigns', { product_id, total_limit: null, ...times });
  if (created.status === 201) expectProblem(await arrive(service.url, product_id).checkout(), 410, 'campaign_ended');
  else expectProblem(created, 400, 'invalid_request');
});

test('stock cannot be raised beyond what Postgres can store', async () => {
  const huge = await operator.openCampaign({ total_limit: 2_000_000_000 });
  const raised = await operator.call('POST', `/admin/campaigns/${huge}/stock`, { delta: 2_000_000_000 });
  expect(`${raised.status} ${raised.text}`).toMatch(/^4/);
  await expectStock(operator, huge, { total: 2_000_000_000, free: 2_000_000_000 });
});

test('a quoted charset is a charset', async () => {
  const headers = { 'content-type': 'application/json; charset="utf-8"' };
  const body = text({ delta: 1 });
  expect(
    (await requestJson(service.url, 'POST', `/admin/campaigns/${product}/stock`, body, { ...admin, ...headers }))
      .status,
  ).toBe(200);
});

describe('a coupon', () => {
  const redeem = (members: Record<string, unknown>) =>
    requestJson(
      service.url,
      'POST',
      '/coupons/redeem',
      text({ code, user_id: `user-${randomUUID()}`, order_id: 'cart-1', idempotency_key: randomUUID(), ...members }),
    );
  const check = (members: Record<string, unknown>) =>
    requestJson(service.url, 'POST', '/coupons/validate', text({ code, user_id: `user-${randomUUID()}`, ...members }));

  test('that is written in other letters, or holds what no code holds, is one that does not exist', async () => {
    const typed = [
      // G and O in Cyrillic, Greek and full width, an O that is a zero, a long s that becomes an S, a dotless i.
      'GООDFORALL',
      'GΟODFORALL',
      'ＧＯＯＤＦＯＲＡＬＬ',
      'G0ODFORALL',
      'GOODFORALL\u017f',
      'GOODFORALL\u0131',
      'GOODFORALL\u0301',
      'GOOD\u200bFORALL',
      '\u202eLLAROFDOOG',
      'GOODFORALL\u0000',
      'GOODFORALL\n',
      'GOODFORALL\tX',
      'GOODFORALL\ud800',
      "GOODFORALL' or '1'='1",
      'GOODFORALL;drop table codes',
      '{GOODFORALL}',
      'GOODFORALL*',
      '%',
      '🍜',
      ' ',
      '- -',
      'A'.repeat(65),
      'A'.repeat(128),
    ];
    for (const made of typed) {
      for (const answer of [await redeem({ code: made }), await check({ code: made })]) {
        expect(`${made} → ${answer.status} ${answer.text}`).toContain('→ 404');
        expectProblem(answer, 404, 'code_not_found');
      }
    }
    await expectStock(operator, coupon, await unitsOf(coupon));
  });

  test('is the same with blanks and hyphens of every kind in it, and in any case', async () => {
    const before = (await unitsOf(coupon)).redeemed;
    const typed = [
      ' goodforall ',
      'GOOD FOR ALL',
      'good-for-all',
      'GOOD\u2013FOR\u2014ALL',
      'GOOD\u00a0FOR\u3000ALL',
      'g-o-o-d f o r a l l',
    ];
    for (const made of typed) {
      const answer = await redeem({ code: made });
      expect([made, answer.status, answer.data.code]).toEqual([made, 201, code]);
    }
    expect((await unitsOf(coupon)).redeemed).toBe(before + typed.length);
  });

  test('takes attributes that are nested a hundred deep, and looks at none of it', async () => {
    const deep = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
    const lists = (depth: number) => `${'['.repeat(depth)}1${']'.repeat(depth)}`;
    for (const nested of [deep(100), lists(100), lists(5_000)]) {
      const body = `{"code":"${code}","user_id":"user-${randomUUID()}","order_id":"cart-1","idempotency_key":"${randomUUID()}","attributes":{"country":${nested}}}`;
      const answer = await requestJson(service.url, 'POST', '/coupons/redeem', body);
      expect([answer.status, answer.data.status]).toEqual([201, 'redeemed']);
    }
    const forSome = await operator.openCampaign({
      code: 'FORSOME',
      total_limit: 10,
      audience: { attribute: 'country', eq: 'ID' },
    });
    for (const country of [JSON.parse(deep(100)), JSON.parse(lists(100)), null, true, 1e300, '__proto__']) {
      expectProblem(await redeem({ code: 'FORSOME', attributes: { country } }), 403, 'audience_mismatch');
    }
    const powers = await redeem({ code: 'FORSOME', attributes: JSON.parse('{"__proto__":{"country":"ID"}}') });
    expectProblem(powers, 403, 'audience_mismatch');
    await expectStock(operator, forSome, { total: 10, free: 10 });
  });

  test('gives nothing on a cart in another currency than its amount, and says so', async () => {
    const amount = await operator.openCampaign({
      code: 'TENRUPIAH',
      total_limit: 10,
      discount: { kind: 'amount', amount: 10, currency: 'IDR' },
    });
    const cart = { subtotal: 999_999_999_999_999, currency: 'USD' };
    const one = await check({ code: 'TENRUPIAH', cart });
    expect([one.status, one.data.discount_amount, one.data.total]).toEqual([200, 0, cart.subtotal]);
    const several = await check({ code: undefined, codes: ['TENRUPIAH', code], cart });
    expect(several.data.left_out).toContainEqual(
      expect.objectContaining({ code: 'TENRUPIAH', reason: 'currency_mismatch' }),
    );
    await expectStock(operator, amount, { total: 10, free: 10 });
  });

  test('is refused without its key, with two keys that differ, and with both or neither of code and codes', async () => {
    const missing = await redeem({ idempotency_key: undefined });
    expect(`${missing.status} ${missing.body.code}`).toMatch(/^400 /);
    expectProblem(await check({ codes: [code] }), 400, 'invalid_request');
    expectProblem(await check({ code: undefined }), 400, 'invalid_request');
    expectProblem(await check({ code: undefined, codes: [code, 'OTHER'] }), 400, 'invalid_request');
  });
});

async function unitsOf(of: string): Promise<{ total: number; free: number; held: number; redeemed: number }> {
  const { total, held, redeemed } = await operator.stats(of);
  return { total, free: total - held - redeemed, held, redeemed };
}

test('after all of this every unit is accounted for', async () => {
  for (const one of [product, coupon, pool]) await expectStock(operator, one, await unitsOf(one));
});
