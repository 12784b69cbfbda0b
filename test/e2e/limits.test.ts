import { createHmac, randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { solve } from '../harness/challenge.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { metricsText } from '../harness/metrics.js';
import { ADMIN_SECRET, startApiProcess, startService } from '../harness/service.js';
import { arrive, countStatuses } from '../harness/shoppers.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

/** For one address and minute, a sixth of the default, so that a small crowd exceeds it. */
const CHECKOUTS = 200;
const service = await startService({ TRUST_PROXY: '1', CHECKOUTS_PER_MINUTE_PER_ADDRESS: String(CHECKOUTS) });
const operator = new Operator(service.url);
const newCode = () => `CODE${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
const newUser = () => `user-${randomUUID()}`;
async function open(terms: Record<string, unknown> = {}) {
  const code = newCode();
  return { code, product: await operator.openCampaign({ code, total_limit: 10_000, per_user_limit: 1_000, ...terms }) };
}

const jwtOf = (sub: string, secret: string) => {
  const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const exp = Math.floor(Date.now() / 1000) + 600;
  const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ sub, exp })}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
};

type Fields = Record<string, unknown> & { address?: string };
const post = (path: string, { address = '192.0.2.1', ...json }: Fields) =>
  send(`${service.url}${path}`, { method: 'POST', headers: { 'x-forwarded-for': address }, json });
const check = (code: string, user: string) => post('/coupons/validate', { code, user_id: user });
const redeem = (code: string, user: string, fields: Fields = {}) =>
  post('/coupons/redeem', { code, user_id: user, order_id: randomUUID(), idempotency_key: randomUUID(), ...fields });
const inTurn = async (times: number, call: () => Promise<Answer>) => {
  const answers: Answer[] = [];
  for (let i = 0; i < times; i += 1) answers.push(await call());
  return answers;
};
const metric = async (line: string) => {
  const text = await metricsText(service.url);
  return Number(
    text
      .split('\n')
      .find((one) => one.startsWith(line))
      ?.split(' ')
      .at(-1) ?? 0,
  );
};

describe('one user', () => {
  test('checks ten codes a minute, of any campaign, and gets the rest of the quota', async () => {
    const { code } = await open();
    const user = newUser();
    const first = await check(code, user);
    expect(first.headers.get('ratelimit-policy')).toBe('"validate";q=10;w=60');
    expect(first.headers.get('ratelimit')).toBe('"validate";r=9;t=6');
    const answers = await inTurn(10, () => check(code, user));
    expect(countStatuses(answers)).toEqual({ 200: 9, 429: 1 });
    const refused = answers.at(-1) as Answer;
    expectProblem(refused, 429, 'rate_limited');
    expect(refused.body.policy).toBe('validate');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await check(code, newUser())).status).toBe(200);
    expect(await metric('doorbuster_limited_total{policy="validate"}')).toBe(1);
  });

  test('over the quota costs as much with ten codes as with one', async () => {
    const user = newUser();
    const codes = await Promise.all(Array.from({ length: 10 }, async () => (await open()).code));
    const checkAll = () => post('/coupons/validate', { codes, user_id: user, cart: { subtotal: 1, currency: 'IDR' } });
    const judged = () => metric('doorbuster_coupons_total{action="validate",outcome="rate_limited"}');
    const before = await judged();
    let status = 200;
    while (status !== 429) ({ status } = await checkAll());
    expect((await judged()) - before).toBe(1);
  });

  test('redeems five times a minute; a repeated key counts for nothing', async () => {
    const { code } = await open();
    const user = newUser();
    const key = { idempotency_key: randomUUID(), order_id: 'o-1' };
    const bucket = () => service.redis.client.get(`db1:b:redeem:${user}|192.0.2.1`);
    expect((await redeem(code, user, key)).status).toBe(201);
    const before = await bucket();
    for (let i = 0; i < 6; i += 1) {
      expectProblem(await redeem(code, user, key), 409, 'duplicate_request');
      // The call is given back behind the answer.
      await until('it was given back', async () => [before, null].includes(await bucket()));
    }
    const answers = await inTurn(5, () => redeem(code, user));
    expect(countStatuses(answers)).toEqual({ 201: 4, 429: 1 });
    expect(answers[0]?.headers.get('ratelimit')).toMatch(/^"redeem";r=3;t=(1\d|2[0-4]), "device";r=\d+;t=1$/);
    expect(answers.at(-1)?.body.policy).toBe('redeem');
  });

  test('has the limits that a campaign names, from the moment it is changed', async () => {
    const { code, product } = await open({
      limits: { redeem_per_minute_per_user: 2, validate_per_minute_per_user: 1 },
    });
    const user = newUser();
    expect(countStatuses(await inTurn(3, () => redeem(code, user)))).toEqual({ 201: 2, 429: 1 });
    expect(countStatuses(await inTurn(2, () => check(code, user)))).toEqual({ 200: 1, 429: 1 });
    await operator.call('PATCH', `/admin/campaigns/${product}`, { limits: { redeem_per_minute_per_user: 8 } });
    expect(countStatuses(await inTurn(9, () => redeem(code, user)))).toEqual({ 201: 8, 429: 1 });
    const wrong = [{ redeem_per_minute_per_user: 0 }, { redeem_per_minute_per_user: '5' }, { attestation_level: 2 }];
    for (const limits of wrong)
      expectProblem(await operator.call('PATCH', `/admin/campaigns/${product}`, { limits }), 400, 'invalid_request');
  });
});

describe('one address', () => {
  test('is only counted where the rules observe: a crowd behind one NAT redeems', async () => {
    const { code } = await open();
    const address = '198.51.100.1';
    const counted = () => metric('doorbuster_limited_total{policy="redeem-address"}');
    const before = await counted();
    const answers = await Promise.all(Array.from({ length: 60 }, () => redeem(code, newUser(), { address })));
    expect(countStatuses(answers)).toEqual({ 201: 60 });
    expect((await counted()) - before).toBe(40);
  });

  test('has to solve challenges beyond twenty where the rules enforce, and no user behind it is locked out', async () => {
    const { code } = await open({ risk: 'enforce', limits: { unusual_hours: null, accounts_per_address: null } });
    const address = '198.51.100.2';
    const answers = await inTurn(25, () => redeem(code, newUser(), { address }));
    expect(countStatuses(answers)).toEqual({ 201: 20, 403: 5 });
    const user = newUser();
    const challenge_solution = await solve(await redeem(code, user, { address }));
    expect((await redeem(code, user, { address, challenge_solution })).status).toBe(201);
    expect((await redeem(code, newUser(), { address: '198.51.100.3' })).status).toBe(201);
    const storm = await inTurn(100, () => redeem(code, newUser(), { address }));
    for (const refused of storm) expectProblem(refused, 403, 'challenge_required');
    expect((await operator.call('GET', `/admin/bans?kind=network&subject=${address}`)).data).toEqual([]);
    const late = newUser();
    const worked = await solve(await redeem(code, late, { address }));
    expect((await redeem(code, late, { address, challenge_solution: worked })).status).toBe(201);
    expect((await post('/coupons/validate', { code, user_id: newUser(), address })).status).toBe(200);
    const neighbour = await operator.openCampaign({ total_limit: 1 });
    const { device_fp, attestation, expires_at } = freshToken('fp-neighbour');
    const taken = { product_id: neighbour, user_id: newUser(), qty: 1, device_fp, attestation, expires_at };
    expect((await post('/flash-sale/checkout', { ...taken, idempotency_key: 'neighbour-1', address })).status).toBe(
      200,
    );
  });

  test('is not blocked by a rule when an operator has allowed it', async () => {
    const address = '198.51.100.4';
    await operator.call('POST', '/admin/bans', {
      effect: 'allow',
      kind: 'network',
      subject: address,
      reason: 'our till',
    });
    const { code } = await open({ risk: 'enforce', limits: { redeem_per_minute_per_address: 1, unusual_hours: null } });
    const answers = await inTurn(12, () => redeem(code, newUser(), { address }));
    expect(countStatuses(answers)).toEqual({ 201: 12 });
  });

  test('may try so many wrong API keys, and a right one always', async () => {
    const { url } = await startApiProcess({ ...service.env, WRONG_KEYS_PER_MINUTE: '5' });
    const knock = (secret: string, address: string) =>
      send(`${url}/admin/campaigns`, { headers: { authorization: `Bearer ${secret}`, 'x-forwarded-for': address } });
    const answers = await inTurn(7, () => knock('wrong-secret-of-nobody', '198.51.100.5'));
    expect(countStatuses(answers)).toEqual({ 401: 5, 429: 2 });
    expect(answers.at(-1)?.body.policy).toBe('wrong-key');
    expect((await knock(ADMIN_SECRET, '198.51.100.5')).status).toBe(200);
    expect((await knock('wrong-secret-of-nobody', '198.51.100.5')).status).toBe(429);
    expect((await knock('wrong-secret-of-nobody', '198.51.100.6')).status).toBe(401);
  });
});

describe('a user who guesses', () => {
  const ADDRESS = '192.0.2.1';
  const waits = async (user: string, code: string, address = ADDRESS, url = service.url, headers = {}) => {
    const answer = await send(`${url}/coupons/validate`, {
      method: 'POST',
      headers: { 'x-forwarded-for': address, ...headers },
      json: { code, user_id: user },
    });
    if (answer.status !== 429) return null;
    expect(answer.body.policy).toBe('cooldown');
    return Number(answer.headers.get('retry-after'));
  };

  test('waits after five failed requests from a network, and no other user does, there or elsewhere', async () => {
    const { code, product } = await open();
    const user = newUser();
    const guess = () => check(newCode(), user);
    for (const answer of await inTurn(4, guess)) expectProblem(answer, 404, 'code_not_found');
    expect((await check(code, user)).status).toBe(200);
    const guessedAt = performance.now();
    expectProblem(await guess(), 404, 'code_not_found');
    const seconds = await until('the user has to wait', () => waits(user, code));
    // 24 seconds from the fifth guess, which may be rounded up to 25, and up to half of that more, so that not all come
    // back at once.
    const elapsed = (performance.now() - guessedAt) / 1000;
    expect(seconds).toBeGreaterThanOrEqual(Math.floor(24 - elapsed));
    expect(seconds).toBeLessThanOrEqual(38);
    expectProblem(await redeem(code, user), 429, 'rate_limited');
    expect((await check(code, newUser())).status).toBe(200);
    // Another caller sent this user's id: the user comes from elsewhere, and buys from here too.
    expect((await post('/coupons/validate', { code, user_id: user, address: '192.0.2.2' })).status).toBe(200);
    expect((await redeem(code, user, { address: '192.0.2.2' })).status).toBe(201);
    expect((await arrive(service.url, product, user).checkout()).status).toBe(200);
  });

  test('fails once with a request, however many codes it has', async () => {
    const { code } = await open();
    const user = newUser();
    const cart = { subtotal: 100, currency: 'USD' };
    const ten = () => post('/coupons/validate', { codes: Array.from({ length: 10 }, newCode), user_id: user, cart });
    expect((await inTurn(4, ten)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const failures = () => service.redis.client.get(`db1:f:${user}|${ADDRESS}`);
    await until('four failures are known', async () => (await failures()) === '4');
    expect(await waits(user, code)).toBeNull();
  });

  test('is not banned, because any caller can send the id: not by a hundred guesses, and from no checkout', async () => {
    const { code, product } = await open({ limits: { validate_per_minute_per_user: 1_000 } });
    const user = newUser();
    await Promise.all(Array.from({ length: 100 }, () => check(newCode(), user)));
    const seconds = await until('the user has to wait', () => waits(user, code));
    // The maximum of a wait that another caller may have caused, with jitter.
    expect(seconds).toBeLessThanOrEqual(384 * 1.5 + 1);
    expect((await arrive(service.url, product, user).checkout()).status).toBe(200);
    expect((await operator.call('GET', `/admin/bans?kind=user&subject=${user}&all=true`)).data).toEqual([]);
    const { rows } = await service.database.client.query(
      `select 1 from audit_log where action = 'ban.create' and after ->> 'subject' = $1`,
      [user],
    );
    expect(rows).toEqual([]);
  });

  test('waits an hour after ten failures, everywhere, when their identity is proven, and still buys', async () => {
    const secret = 'a-secret-of-thirty-two-characters';
    const { url } = await startApiProcess({ ...service.env, SHOPPER_JWT_SECRET: secret });
    const { code, product } = await open({ limits: { validate_per_minute_per_user: 1_000 } });
    const user = newUser();
    const authorization = `Bearer ${jwtOf(user, secret)}`;
    const guess = (i: number) =>
      send(`${url}/coupons/validate`, {
        method: 'POST',
        headers: { authorization, 'x-forwarded-for': `192.0.2.${i}` },
        json: { code: newCode(), user_id: user },
      });
    // Seven failures are from earlier days; a process publishes the first of a minute when there are three.
    await service.redis.client.set(`db1:f:${user}`, '7');
    for (const i of [101, 102, 103]) expectProblem(await guess(i), 404, 'code_not_found');
    const seconds = await until('the user waits for an hour', async () => {
      const left = await waits(user, code, '192.0.2.50', url, { authorization });
      return left !== null && left > 3_000 ? left : null;
    });
    expect(seconds).toBeLessThanOrEqual(3_600 * 1.5 + 1);
    const shopper = arrive(url, product, user);
    const bought = await send(`${url}/flash-sale/checkout`, {
      method: 'POST',
      headers: { authorization },
      json: { product_id: product, user_id: user, qty: 1, ...shopper.token, idempotency_key: randomUUID() },
    });
    expect(bought.status).toBe(200);
  });

  test('begins anew with a redemption that succeeds', async () => {
    const { code } = await open();
    const user = newUser();
    await inTurn(4, () => check(newCode(), user));
    const key = `db1:f:${user}|${ADDRESS}`;
    await until('four failures are known', async () => (await service.redis.client.get(key)) === '4');
    expect((await redeem(code, user)).status).toBe(201);
    await until('they are forgotten', async () => (await service.redis.client.exists(key)) === 0);
  });

  test('uses up no other user’s checks and redemptions', async () => {
    const { code } = await open();
    const user = newUser();
    expect(countStatuses(await inTurn(11, () => check(code, user)))).toEqual({ 200: 10, 429: 1 });
    expect(countStatuses(await inTurn(6, () => redeem(code, user)))).toEqual({ 201: 5, 429: 1 });
    expect((await post('/coupons/validate', { code, user_id: user, address: '192.0.2.3' })).status).toBe(200);
    expect((await redeem(code, user, { address: '192.0.2.3' })).status).toBe(201);
  });
});

test('twice as many users as the limit of checkouts check out from one address, and none is refused', async () => {
  const { product } = await open();
  const counted = () => metric('doorbuster_limited_total{policy="checkout-address"}');
  const before = await counted();
  const shoppers = Array.from({ length: 2 * CHECKOUTS }, () => arrive(service.url, product));
  const answers = await Promise.all(shoppers.map((shopper) => shopper.checkout()));
  expect(countStatuses(answers)).toEqual({ 200: 2 * CHECKOUTS });
  expect((await counted()) - before).toBeGreaterThanOrEqual(CHECKOUTS);
});
