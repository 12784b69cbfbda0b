import { createHmac, randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem, expectStock } from '../harness/checks.js';
import { type Answer, Operator, Shopper, send } from '../harness/clients.js';
import { request } from '../harness/raw-http.js';
import { ATTESTATION_KEY, sharedService, startApiProcess } from '../harness/service.js';
import { arrive, countStatuses, withinASecond } from '../harness/shoppers.js';
import { type AttestationSigner, freshToken, redisSeconds, signToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const product = await operator.openCampaign({ total_limit: 1_000, hold_seconds: 900 });
const redisNow = () => redisSeconds(service.redis.client);

/**
 * Returns the responses to two tokens that were judged within one second of the clock of Redis, so that "now − 29 s"
 * stayed within 30 s. A busy machine may need another second.
 * @param ask is given the whole second
 */
function inOneSecond(ask: (now: number) => Promise<[Answer, Answer]>): Promise<[Answer, Answer]> {
  return until('two requests are answered within a second', async () => {
    const began = await redisNow();
    const now = Math.floor(began);
    if (began - now > 0.3) return null;
    const answers = await ask(now);
    return (await redisNow()) < now + 0.95 ? answers : null;
  });
}

/** A checkout by a new user of this device with these device fields. */
function buyWith(fields: Record<string, unknown>, url = service.url): Promise<Answer> {
  const json = { product_id: product, user_id: randomUUID(), qty: 1, idempotency_key: randomUUID(), ...fields };
  return send(`${url}/flash-sale/checkout`, { method: 'POST', json });
}

describe('a token', () => {
  test('is refused when any part of it is forged', async () => {
    const before = await operator.stats(product);
    const now = Math.floor(await redisNow());
    const good = signToken('fp-phone', now + 30);
    const [id, mac] = good.attestation.split('.') as [string, string];
    const otherKey = signToken('fp-phone', now + 30, { id: 'a1', key: Buffer.alloc(32, 8) });
    const hex = createHmac('sha256', ATTESTATION_KEY)
      .update(`fp-phone:${now + 30}`)
      .digest('hex');
    const forgeries = [
      '',
      '.',
      id,
      `${id}.`,
      `.${mac}`,
      mac,
      `${id}.${mac.slice(0, -1)}`,
      `${id}.${mac}AAAA`,
      `a2.${mac}`,
      `__proto__.${mac}`,
      `${id}.${'A'.repeat(43)}`,
      `${id}.${hex}`,
      hex,
      otherKey.attestation,
      'x'.repeat(512),
    ];
    for (const attestation of forgeries) {
      const refused = await buyWith({ ...good, attestation });
      expect([attestation, refused.status]).toEqual([attestation, 401]);
      expectProblem(refused, 401, 'attestation_invalid');
    }
    for (const changed of [{ expires_at: now + 31 }, { device_fp: 'fp-phone2' }, { device_fp: 'fp-phone:1' }]) {
      expectProblem(await buyWith({ ...good, ...changed }), 401, 'attestation_invalid');
    }
    expect((await buyWith(good)).status).toBe(200);
    await expectStock(operator, product, { total: 1_000, free: before.free - 1, held: before.held + 1 });
  });

  test('is accepted only as the text that was issued', async () => {
    const good = signToken('fp-phone', Math.floor(await redisNow()) + 30);
    const variants = [
      `${good.attestation}.`,
      `${good.attestation}=`,
      `${good.attestation}\n`,
      good.attestation.replace('.', '.='),
    ];
    for (const attestation of variants)
      expectProblem(await buyWith({ ...good, attestation }), 401, 'attestation_invalid');
  });

  test('is accepted until 30 s after its expiry and refused from 31 s on', async () => {
    const [tolerated, refused] = await inOneSecond((now) =>
      Promise.all([buyWith(signToken('fp-slow', now - 29)), buyWith(signToken('fp-slow', now - 31))]),
    );
    expect(tolerated.status).toBe(200);
    expectProblem(refused, 401, 'attestation_expired');
  });

  test('is accepted from a clock 30 s ahead and refused from further in the future', async () => {
    const [tolerated, refused] = await inOneSecond((now) =>
      Promise.all([buyWith(signToken('fp-fast', now + 60)), buyWith(signToken('fp-fast', now + 62))]),
    );
    expect(tolerated.status).toBe(200);
    expectProblem(refused, 401, 'attestation_invalid');
    for (const far of [Math.floor(await redisNow()) + 3_600, 99_999_999_999]) {
      expectProblem(await buyWith(signToken('fp-fast', far)), 401, 'attestation_invalid');
    }
    expectProblem(await buyWith(signToken('fp-fast', 0)), 401, 'attestation_expired');
  });

  test('of one device does not serve another, whichever way the device is named', async () => {
    const mine = signToken('fp-mine', Math.floor(await redisNow()) + 30);
    expectProblem(await buyWith({ ...mine, device_fp: 'fp-theirs' }), 401, 'attestation_invalid');
    const { device_fp: _, ...nameless } = mine;
    expectProblem(await buyWith(nameless), 401, 'attestation_invalid');
    const json = { product_id: product, user_id: randomUUID(), qty: 1, idempotency_key: randomUUID(), ...nameless };
    const headers = { 'x-device-fingerprint': 'fp-mine' };
    expect((await send(`${service.url}/flash-sale/checkout`, { method: 'POST', headers, json })).status).toBe(200);
  });

  test('outlives the rotation of its key, but not its removal', async () => {
    const encoded = (key: Buffer) => key.toString('base64');
    const next: AttestationSigner = { id: 'a2', key: Buffer.alloc(32, 11) };
    const [rotated, removed] = await Promise.all([
      startApiProcess({ ...service.env, ATTESTATION_KEYS: `a2:${encoded(next.key)},a1:${encoded(ATTESTATION_KEY)}` }),
      startApiProcess({ ...service.env, ATTESTATION_KEYS: `a2:${encoded(next.key)}` }),
    ]);
    const old = await new Shopper(service.url, product).getToken();
    const fresh = await new Shopper(rotated.url, product).getToken();
    expect(fresh).toEqual(signToken(fresh.device_fp, fresh.expires_at, next));

    expect((await buyWith(old, rotated.url)).status).toBe(200);
    expect((await buyWith(fresh, rotated.url)).status).toBe(200);
    expect((await buyWith(fresh, removed.url)).status).toBe(200);
    expectProblem(await buyWith(old, removed.url), 401, 'attestation_invalid');
    // A process that has not been restarted yet does not know the new key.
    expectProblem(await buyWith(fresh), 401, 'attestation_invalid');
  });
});

describe('25 requests of one device within a second', () => {
  test('are 20 admitted and 5 refused, with the quota they broke, and the device is admitted again', async () => {
    let token = freshToken('');
    const answers = await withinASecond(() => {
      token = freshToken(`fp-${randomUUID()}`);
      return Promise.all(Array.from({ length: 25 }, () => buyWith(token)));
    });

    expect(countStatuses(answers)).toEqual({ 200: 20, 429: 5 });
    for (const { status, headers } of answers) {
      expect([status, headers.get('ratelimit-policy')]).toEqual([status, '"device";q=20;w=1']);
    }
    for (const refused of answers.filter(({ status }) => status === 429)) {
      expectProblem(refused, 429, 'rate_limited');
      expect(refused.body.policy).toBe('device');
      expect(refused.headers.get('ratelimit')).toBe('"device";r=0;t=1');
      expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    }
    await until('the device is admitted again', async () => (await buyWith(token)).status === 200);
  });

  test('get the rest of the quota with each admission', async () => {
    const { headers } = await arrive(service.url, product).checkout();
    expect(headers.get('ratelimit')).toMatch(/^"device";r=19;t=1$/);
  });

  test('do not use up the quota of another device', async () => {
    const [single, ...answers] = await withinASecond(() => {
      const [busy, other] = [arrive(service.url, product), arrive(service.url, product)];
      return Promise.all([other.checkout(), ...Array.from({ length: 25 }, () => buyWith(busy.token as never))]);
    });
    expect(countStatuses(answers)).toEqual({ 200: 20, 429: 5 });
    expect(single?.status).toBe(200);
  });
});

describe('GET /flash-sale/token', () => {
  const tokenFor = (headers: Record<string, string>, query = '') =>
    request(service.url, { path: `/flash-sale/token${query}`, headers });
  const browser = {
    'user-agent': 'Mozilla/5.0 (Pixel 9)',
    'accept-language': 'id-ID',
    'sec-ch-ua-platform': '"Android"',
  };

  test('takes the device from the query, else from X-Device-Fingerprint, else from stable headers', async () => {
    const byQuery = await tokenFor({ ...browser, 'x-device-fingerprint': 'fp-header' }, '?device_fp=fp-query');
    const byHeader = await tokenFor({ ...browser, 'x-device-fingerprint': 'fp-header' });
    const derived = await tokenFor(browser);
    expect([byQuery.data.device_fp, byHeader.data.device_fp]).toEqual(['fp-query', 'fp-header']);
    expect(derived.data.device_fp).toMatch(/^[A-Za-z0-9._:@-]{1,128}$/);
    for (const { status, data } of [byQuery, byHeader, derived]) {
      expect([status, data]).toEqual([200, signToken(String(data.device_fp), Number(data.expires_at))]);
    }
  });

  test('derives the same device on every connection, and another one for other headers', async () => {
    const deviceOf = async (headers: Record<string, string>) => String((await tokenFor(headers)).data.device_fp);
    // Every request here has a connection, and so a port, of its own.
    const same = await Promise.all(Array.from({ length: 5 }, () => deviceOf(browser)));
    expect(new Set(same).size).toBe(1);
    const others = await Promise.all([
      deviceOf({ ...browser, 'user-agent': 'curl/8' }),
      deviceOf({ ...browser, 'accept-language': 'en' }),
      deviceOf({ ...browser, 'sec-ch-ua-platform': '"iOS"' }),
      deviceOf({}),
    ]);
    expect(new Set([...same, ...others]).size).toBe(5);
    // What changes from request to request does not matter.
    const unstable = { 'x-request-id': 'r-1', cookie: 'a=b', accept: '*/*' };
    expect(await deviceOf({ ...browser, ...unstable })).toBe(same[0]);
  });

  test('gives a token that buys without a device_fp, from the same browser alone', async () => {
    const { data } = await tokenFor(browser);
    const { device_fp: _, ...token } = data as { device_fp: string; attestation: string; expires_at: number };
    const body = () =>
      JSON.stringify({ product_id: product, user_id: randomUUID(), qty: 1, idempotency_key: randomUUID(), ...token });
    const buy = (headers: Record<string, string>) =>
      request(service.url, {
        method: 'POST',
        path: '/flash-sale/checkout',
        headers: { 'content-type': 'application/json', ...headers },
        body: body(),
      });
    expect((await buy(browser)).status).toBe(200);
    expectProblem(await buy({ ...browser, 'user-agent': 'curl/8' }), 401, 'attestation_invalid');
  });

  test('refuses a device that could not be one', async () => {
    for (const query of [
      '?device_fp=',
      '?device_fp=a%20b',
      `?device_fp=${'x'.repeat(129)}`,
      '?device_fp=%00',
      '?device_fp=a&device_fp=b',
      '?device_fp=%F0%9F%91%BB',
    ]) {
      expectProblem(await tokenFor({}, query), 400, 'invalid_request');
    }
    for (const header of ['', 'a b', 'x'.repeat(129), 'a,b']) {
      expectProblem(await tokenFor({ 'x-device-fingerprint': header }), 400, 'invalid_request');
    }
  });

  test('is limited for each address, and says how much is left', async () => {
    const { url } = await startApiProcess({ ...service.env, TOKENS_PER_MINUTE: '3' });
    // The count is shared by all processes, and this file has used some of it.
    await service.redis.client.del('db1:q:token:127.0.0.1');
    const answers: Answer[] = [];
    for (const _ of [1, 2, 3, 4]) answers.push(await send(`${url}/flash-sale/token?device_fp=fp`));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(answers.map(({ headers }) => headers.get('ratelimit-policy'))).toEqual(Array(4).fill('"token";q=3;w=60'));
    expect(answers.map(({ headers }) => headers.get('ratelimit')?.match(/r=(\d+)/)?.[1])).toEqual(['2', '1', '0', '0']);
    const refused = answers[3] as Answer;
    expectProblem(refused, 429, 'rate_limited');
    expect(refused.body.policy).toBe('token');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  });
});
