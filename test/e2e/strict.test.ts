import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { keys } from '../../shared/redis/keys.js';
import { newAddress } from '../harness/addresses.js';
import { solve } from '../harness/challenge.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { handOverOf, SIGNING_KEY, secondsFromNow } from '../harness/identity.js';
import { sharedService, startApiProcess } from '../harness/service.js';
import { countStatuses } from '../harness/shoppers.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

/** Campaigns with `risk: strict`, where a gateway vouches for the users and where users prove who they are. */
const service = await sharedService();
const operator = new Operator(service.url);
const signedApi = await startApiProcess({
  ...service.env,
  SHOPPER_IDENTITY: 'signed',
  SHOPPER_SIGNING_KEYS: `s1:${SIGNING_KEY.toString('base64')}`,
});

const open = (limits: Record<string, unknown> = {}, terms: Record<string, unknown> = {}) =>
  operator.openCampaign({
    ...{ total_limit: 10_000, risk: 'strict', per_user_limit: 10 },
    limits: { unusual_hours: null, ...limits },
    ...terms,
  });

type Who = {
  user?: string;
  device?: string;
  address?: string;
  /** The hand-over of a shop; none = the gateway vouches for the user. */
  signed?: Record<string, unknown>;
  url?: string;
  fields?: Record<string, unknown>;
};
const newUser = () => `user-${randomUUID()}`;

function post(path: string, who: Who & { user: string }, json: object) {
  const { user, address = newAddress(), signed, url = service.url } = who;
  const shopper = signed && handOverOf({ user_id: user, expires_at: secondsFromNow(600), ...signed });
  return send((signed ? signedApi.url : url) + path, {
    method: 'POST',
    headers: { 'x-forwarded-for': address, ...(shopper ? { 'x-shopper': shopper } : {}) },
    json: { user_id: user, idempotency_key: randomUUID(), ...json },
  });
}
function buy(product: string, who: Who = {}): Promise<Answer> {
  const token = freshToken(who.device ?? `fp-${randomUUID()}`);
  const json = { product_id: product, qty: 1, ...token, ...who.fields };
  return post('/flash-sale/checkout', { ...who, user: who.user ?? newUser() }, json);
}
const redeem = (code: string, who: Who = {}) =>
  post('/coupons/redeem', { ...who, user: who.user ?? newUser() }, { code, order_id: randomUUID(), ...who.fields });
const newCode = () => `STRICT${randomUUID().slice(0, 8).toUpperCase()}`;
const crowd = (count: number, call: () => Promise<Answer>) => Promise.all(Array.from({ length: count }, call));
const ages = (hours: number) => ({
  attributes: { account_created_at: new Date(Date.now() - hours * 3_600_000).toISOString() },
});

describe('an address that sends more than 20 claims in a minute', () => {
  test('is blocked for an hour in this campaign alone: 20 of 500 honest users are served', async () => {
    const code = newCode();
    const product = await open({}, { code });
    const address = newAddress();
    const answers = await crowd(500, () => buy(product, { address }));
    expect(countStatuses(answers)).toEqual({ 200: 20, 403: 480 });
    const refused = answers.filter(({ status }) => status === 403);
    for (const answer of refused) {
      expectProblem(answer, 403, 'blocked');
      const leftMs = Date.parse(String(answer.body.until)) - Date.now();
      expect(leftMs).toBeGreaterThan(3_500_000);
      expect(leftMs).toBeLessThanOrEqual(3_601_000);
    }
    expectProblem(await redeem(code, { address }), 403, 'blocked');
    expect((await buy(product)).status).toBe(200);
    expect((await buy(await open(), { address })).status).toBe(200);
    expect((await operator.call('GET', `/admin/bans?kind=network&subject=${address}`)).data).toEqual([]);
  });

  test('is blocked in every process for all of the hour', async () => {
    const product = await open();
    const address = newAddress();
    await crowd(21, () => buy(product, { address }));
    // The minute of the count is over.
    await service.redis.client.del(`${keys.quota('strict-address')}:${product}|${address}`);
    const other = await startApiProcess(service.env);
    // A process that cannot read the rules when it starts serves without them for a moment.
    const refused = await until('the other process has read the rules', async () => {
      const answer = await buy(product, { address, url: other.url });
      return answer.status === 403 && answer;
    });
    expectProblem(refused, 403, 'blocked');
    expect(Date.parse(String(refused.body.until)) - Date.now()).toBeGreaterThan(3_500_000);
    expect((await buy(product, { url: other.url })).status).toBe(200);
  });

  test('is never blocked for users who prove who they are', async () => {
    const product = await open();
    const address = newAddress();
    expect(countStatuses(await crowd(100, () => buy(product, { address, signed: {} })))).toEqual({ 200: 100 });
    expect((await buy(product, { address })).status).toBe(200);
  });

  test('is served if an operator has allowed it, and repetitions count nothing', async () => {
    const product = await open();
    const [address, user, idempotency_key] = [newAddress(), newUser(), randomUUID()];
    const repeat = () => buy(product, { address, user, device: 'fp-faithful', fields: { idempotency_key } });
    expect((await repeat()).status).toBe(200);
    for (let i = 0; i < 40; i += 1) expectProblem(await repeat(), 409, 'duplicate_request');
    await crowd(40, () => buy(product, { address }));
    expectProblem(await buy(product, { address }), 403, 'blocked');
    expectProblem(await repeat(), 409, 'duplicate_request');
    const reason = 'the office';
    await operator.call('POST', '/admin/bans', { effect: 'allow', kind: 'network', subject: address, reason });
    await until('it is served', async () => (await buy(product, { address })).status === 200);
    expect(countStatuses(await crowd(40, () => buy(product, { address })))).toEqual({ 200: 40 });
  });

  test('has the limit that the campaign sets, for codes too', async () => {
    const code = newCode();
    const product = await open({ redeem_per_minute_per_address: 5 }, { code });
    const address = newAddress();
    expect(countStatuses(await crowd(30, () => redeem(code, { address })))).toEqual({ 201: 5, 403: 25 });
    expect((await buy(product)).status).toBe(200);
  });

  test('stops a kit of bots that changes users and devices, and no shopper elsewhere', async () => {
    const product = await open({}, { total_limit: 400 });
    const networks = Array.from({ length: 5 }, newAddress);
    const bots = crowd(300, () => buy(product, { address: networks[Math.floor(Math.random() * 5)] as string }));
    const shoppers = await crowd(100, () => buy(product));
    expect(countStatuses(shoppers)).toEqual({ 200: 100 });
    expect(countStatuses(await bots)).toEqual({ 200: 100, 403: 200 });
    expect(await ledger(service.env, product)).toMatchObject({ code: 0, verdict: { confirmed: 200 } });
  });
});

test('a replay has no address blocked, and a solved challenge counts once', async () => {
  const product = await open({ checkout_per_minute_per_address: 4, account_min_age_hours: 24 });
  const address = newAddress();
  const who = { address, user: newUser(), device: `fp-${randomUUID()}`, fields: ages(1) };
  const refused = await buy(product, who);
  const challenge_solution = await solve(refused);
  const idempotency_key = randomUUID();
  const solved = () => buy(product, { ...who, fields: { ...ages(1), challenge_solution, idempotency_key } });
  expect((await solved()).status).toBe(200);
  for (let i = 0; i < 2; i += 1) expect((await buy(product, { address })).status).toBe(200);
  const replays = await crowd(30, solved);
  for (const replay of replays) expectProblem(replay, 409, 'duplicate_request');
  expect((await buy(product, { address })).status).toBe(200);
  expectProblem(await buy(product, { address }), 403, 'blocked');
  expectProblem(await solved(), 409, 'duplicate_request');
});

test('a solved challenge is no free pass for a claim that fails again and again', async () => {
  const product = await open({ account_min_age_hours: 24 }, { total_limit: 1 });
  expect((await buy(product)).status).toBe(200);
  const who = { user: newUser(), address: newAddress() };
  const challenge_solution = await solve(await buy(product, { ...who, device: 'fp-late', fields: ages(1) }));
  const idempotency_key = randomUUID();
  const fields = { ...ages(1), challenge_solution, idempotency_key };
  const answers: Answer[] = [];
  for (let i = 0; i < 5; i += 1) answers.push(await buy(product, { ...who, device: 'fp-late', fields }));
  expect(answers.map(({ body }) => body.code)).toEqual([
    ...['sold_out', 'sold_out', 'sold_out', 'rate_limited', 'rate_limited'],
  ]);
});

test('a device is blocked with its fifth account, in this campaign alone', async () => {
  const product = await open();
  const device = `fp-${randomUUID()}`;
  for (let i = 0; i < 6; i += 1) {
    const answer = await buy(product, { device });
    if (i < 4) expect(answer.status).toBe(200);
    else expectProblem(answer, 403, 'blocked');
  }
  for (const risk of ['observe', 'enforce', 'strict']) {
    const other = await open({}, { risk });
    expect((await buy(other, { device })).status).toBe(200);
  }
});

test('a user has three attempts at once, and three more in each minute', async () => {
  const code = newCode();
  const product = await open({}, { code });
  const [user, idempotency_key] = [newUser(), randomUUID()];
  const address = newAddress();
  const who = () => ({ user, address });
  const first = () => buy(product, { ...who(), fields: { idempotency_key } });
  expect((await first()).status).toBe(200);
  for (let i = 0; i < 10; i += 1) expectProblem(await first(), 409, 'duplicate_request');
  for (let i = 0; i < 2; i += 1) expect((await buy(product, who())).status).toBe(200);
  const refused = await buy(product, who());
  expectProblem(refused, 429, 'rate_limited');
  expect(refused.body.policy).toBe('checkout');
  for (let i = 0; i < 10; i += 1) expectProblem(await first(), 409, 'duplicate_request');
  expectProblem(await buy(product, who()), 429, 'rate_limited');
  const again = { ...who(), fields: { order_id: 'order-1', idempotency_key: randomUUID() } };
  expect((await redeem(code, again)).status).toBe(201);
  for (let i = 0; i < 2; i += 1) expect((await redeem(code, who())).status).toBe(201);
  for (let i = 0; i < 10; i += 1) expectProblem(await redeem(code, again), 409, 'duplicate_request');
  expectProblem(await redeem(code, who()), 429, 'rate_limited');
});

test('a young account needs work, unless the shop has verified the person', async () => {
  const product = await open();
  const grown = { signed: ages(25) };
  const signedAs = (level: number) => ({ signed: { ...ages(1), ...(level ? { identity_level: level } : {}) } });
  expectProblem(await buy(product, { fields: ages(1) }), 403, 'challenge_required');
  await until('the other process has the rules', async () => (await buy(product, signedAs(0))).status === 403);
  expectProblem(await buy(product, signedAs(0)), 403, 'challenge_required');
  for (const answer of [await buy(product, signedAs(1)), await buy(product, grown), await buy(product)])
    expect(answer.status).toBe(200);
});

test('the work is hard at unusual hours', async () => {
  const hour = new Date().getUTCHours();
  const product = await open({ unusual_hours: { from: hour, to: (hour + 2) % 24 || 24 } });
  const who = { user: newUser(), device: `fp-${randomUUID()}` };
  const refused = await buy(product, who);
  expect((refused.body.challenge as any).parameters.cost).toBe(128);
  expect((await buy(product, { ...who, fields: { challenge_solution: await solve(refused) } })).status).toBe(200);
});

describe('a campaign for persons whom the shop has verified', () => {
  test('serves those whose shop has signed the level, and says why it refuses others', async () => {
    const product = await open();
    const limits = { identity_level: 2, unusual_hours: null };
    const changed = await new Operator(signedApi.url).call('PATCH', `/admin/campaigns/${product}`, { limits });
    expect(changed.status).toBe(200);
    const levels = [{}, { identity_level: 1 }, { identity_level: 2 }, { identity_level: 9 }];
    await until('it is in force', async () => (await buy(product, { signed: {} })).status === 403);
    const answers = await Promise.all(levels.map((signed) => buy(product, { signed })));
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 200, 200]);
    for (const refused of answers.slice(0, 2)) expectProblem(refused, 403, 'verification_required');
    expectProblem(await buy(product, { signed: { identity_level: 10 } }), 401, 'unauthorized');
  });

  test.each(['off', 'observe', 'enforce', 'strict'])('requires the same in each way, with risk %s', async (risk) => {
    const code = `VIP${randomUUID().slice(0, 8).toUpperCase()}`;
    const sale = { total_limit: 100, per_user_limit: 5, require_attestation: false, code, risk };
    const created = await new Operator(signedApi.url).call('POST', '/admin/campaigns', {
      ...{ ...sale, product_id: `vip-${randomUUID()}`, limits: { identity_level: 2, unusual_hours: null } },
    });
    expect(created.status).toBe(201);
    const ways = [
      (who: Who) => buy(created.data.product_id, who),
      (who: Who) => redeem(code, who),
      (who: Who) => post('/coupons/validate', { ...who, user: newUser() }, { code, idempotency_key: undefined }),
    ];
    for (const way of ways) {
      await until('it is in force', async () => (await way({ signed: { identity_level: 1 } })).status === 403);
      expectProblem(await way({ signed: { identity_level: 1 } }), 403, 'verification_required');
      expect([200, 201]).toContain((await way({ signed: { identity_level: 2 } })).status);
    }
  });

  test('cannot be opened where nothing proves who a user is', async () => {
    const refused = await operator.call('POST', '/admin/campaigns', {
      ...{ product_id: `p-${randomUUID()}`, total_limit: 1, limits: { identity_level: 1 } },
    });
    expectProblem(refused, 400, 'invalid_request');
    expect(refused.body.errors).toEqual([
      {
        pointer: '#/limits/identity_level',
        detail: 'requires SHOPPER_IDENTITY=jwt or signed in the configuration of the API',
      },
    ]);
  });
});

test('the creation says what the rules do to honest users behind one address', async () => {
  const create = (url: string, terms: object) =>
    new Operator(url).call('POST', '/admin/campaigns', { product_id: `p-${randomUUID()}`, total_limit: 1, ...terms });
  const strict = await create(service.url, { risk: 'strict', limits: { checkout_per_minute_per_address: 30 } });
  expect(strict.data.warnings).toEqual([expect.stringContaining('about 30 are served')]);
  for (const [url, risk] of [
    [service.url, 'enforce'],
    [signedApi.url, 'strict'],
  ] as const)
    expect((await create(url, { risk })).data.warnings).toBeUndefined();
});
