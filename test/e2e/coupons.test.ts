import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { expectProblem, expectStock } from '../harness/checks.js';
import { Operator, PaymentService, Shopper, send } from '../harness/clients.js';
import { generateCodes, importCodes } from '../harness/issued-codes.js';
import { ON_CLUSTER } from '../harness/redis-mode.js';
import { sharedService } from '../harness/service.js';
import { countStatuses } from '../harness/shoppers.js';
import { until } from '../harness/until.js';
import { ledger } from '../harness/verdict.js';

// One user redeems more often here than the usual limits allow; limits.test.ts tests them.
const service = await sharedService();
const operator = new Operator(service.url);
const payments = new PaymentService(service.url);

const newKey = () => `key-${randomUUID()}`;
const newUser = () => `user-${randomUUID()}`;
const redeem = (code: string, fields: Record<string, unknown> = {}, headers: Record<string, string> = {}) =>
  send(`${service.url}/coupons/redeem`, {
    method: 'POST',
    headers,
    json: {
      code,
      user_id: newUser(),
      order_id: `order-${randomUUID()}`,
      ...('idempotency-key' in headers ? {} : { idempotency_key: newKey() }),
      ...fields,
    },
  });
const check = (fields: Record<string, unknown>) =>
  send(`${service.url}/coupons/validate`, { method: 'POST', json: { user_id: newUser(), ...fields } });

const newCode = () => `CODE${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
async function openShared(terms: Record<string, unknown> = {}): Promise<{ product: string; code: string }> {
  const code = newCode();
  return { product: await operator.openCampaign({ code, total_limit: 10, ...terms }), code };
}

/** A campaign with generated codes. @returns them in the order of their numbers */
async function openWithCodes(type: 'pool' | 'unique', count: number, terms: Record<string, unknown> = {}) {
  const product = await operator.openCampaign({ type, ...terms });
  return { product, codes: await generateCodes(operator, product, count) };
}

async function openWithImport(lines: string[], terms: Record<string, unknown> = {}): Promise<string> {
  const product = await operator.openCampaign({ type: 'unique', ...terms });
  await importCodes(operator, product, lines);
  return product;
}

describe('redeeming', () => {
  test('a shared code uses a unit, once for each user, however it is typed', async () => {
    const { product, code } = await openShared({ discount: { kind: 'percent', percent: 12.5 } });
    const user = newUser();
    const typed = ` ${code.slice(0, 4).toLowerCase()}-${code.slice(4)} `;
    const answer = await redeem(typed, { user_id: user, order_id: 'cart-1', cart: { subtotal: 999, currency: 'IDR' } });
    expect([answer.status, answer.data]).toEqual([
      201,
      {
        status: 'redeemed',
        reservation_id: expect.any(String),
        order_id: 'cart-1',
        code,
        discount: { kind: 'percent', percent: 12.5 },
        discount_amount: 125,
        total: 874,
        pay_before: null,
        ticket: expect.any(String),
        durability: ON_CLUSTER ? 'replicated' : 'journaled',
      },
    ]);
    expectProblem(await redeem(code, { user_id: user }), 409, 'already_redeemed');
    await expectStock(operator, product, { total: 10, free: 9, redeemed: 1 });
  });

  test('a pool code is used once, by any user', async () => {
    const { product, codes } = await openWithCodes('pool', 3, { total_limit: 3 });
    const answers = await Promise.all(codes.flatMap((code) => [redeem(code), redeem(code)]));
    expect(countStatuses(answers)).toEqual({ 201: 3, 409: 3 });
    expect(answers.flatMap(({ data }) => data.code ?? []).sort()).toEqual([...codes].sort());
    await expectStock(operator, product, { total: 3, redeemed: 3 });
  });

  test('a code that is bound to a user is unknown to all others', async () => {
    const [mine, anyones] = [newCode(), newCode()];
    const product = await openWithImport(['code,user_id', `${mine},ann`, anyones]);
    expectProblem(await redeem(mine, { user_id: 'bob' }), 404, 'code_not_found');
    expect((await redeem(mine, { user_id: 'ann' })).status).toBe(201);
    expect((await redeem(anyones, { user_id: 'bob' })).status).toBe(201);
    expectProblem(await new Shopper(service.url, product).checkout(), 409, 'code_required');
  });

  test('with a hold is paid by confirm, and a payment that fails frees unit, user and code', async () => {
    const { codes } = await openWithCodes('pool', 1, { total_limit: 1, hold_seconds: 900 });
    const user = newUser();
    const first = await redeem(String(codes[0]), { user_id: user });
    expect([first.status, first.data.status]).toEqual([201, 'reserved']);
    expect(Date.parse(first.data.pay_before)).toBeGreaterThan(Date.now());
    await payments.release(first.data.reservation_id);
    const second = await redeem(String(codes[0]), { user_id: user });
    expect((await payments.confirm(second.data.reservation_id)).data.status).toBe('redeemed');
    expectProblem(await redeem(String(codes[0])), 409, 'already_redeemed');
  });

  test('is repeated by its key, and not by another request with it', async () => {
    const { code } = await openShared();
    const [key, fields] = [newKey(), { user_id: newUser(), order_id: 'cart-1' }];
    const first = await redeem(code, fields, { 'idempotency-key': key });
    const again = await redeem(code.toLowerCase(), fields, { 'idempotency-key': key });
    expect([again.status, again.text, again.headers.get('idempotent-replayed')]).toEqual([201, first.text, 'true']);
    const inBody = await redeem(code, { ...fields, idempotency_key: key });
    expectProblem(inBody, 409, 'duplicate_request');
    expect([inBody.body.original_status, inBody.body.data]).toEqual([201, first.data]);
    const other = await redeem(code, { ...fields, order_id: 'cart-2' }, { 'idempotency-key': key });
    expectProblem(other, 422, 'idempotency_key_reused');
    // The key of another user is another key.
    const stranger = await redeem(code, { user_id: newUser(), order_id: 'cart-3' }, { 'idempotency-key': key });
    expect([stranger.status, stranger.headers.get('idempotent-replayed')]).toEqual([201, null]);
  });

  test('puts a user who finds no free unit into the line with the code, which they keep', async () => {
    const { product, codes } = await openWithCodes('pool', 3, { total_limit: 1, waiting_room: { enabled: true } });
    const [held, wanted] = codes as [string, string];
    const holder = await redeem(held);
    const waiter = newUser();
    const queued = await redeem(wanted, { user_id: waiter });
    expect([queued.status, queued.data.position]).toEqual([202, 1]);
    expect(queued.headers.get('location')).toBe(`/flash-sale/queue-status?product_id=${product}&user_id=${waiter}`);
    expectProblem(await redeem(wanted), 409, 'already_redeemed');
    expect((await payments.refund(holder.data.reservation_id)).data.returned_to_stock).toBe(true);
    const query = `product_id=${product}&user_id=${waiter}`;
    const standing = await send(`${service.url}/flash-sale/queue-status?${query}`, {
      headers: { 'x-ticket': queued.data.ticket },
    });
    expect(standing.data).toMatchObject({ status: 'redeemed', code: wanted });
  });

  test('of a paused, closed, coming and unknown campaign is refused as such', async () => {
    const paused = await openShared();
    await operator.call('POST', `/admin/campaigns/${paused.product}/pause`);
    expectProblem(await redeem(paused.code), 503, 'campaign_paused');
    await operator.call('POST', `/admin/campaigns/${paused.product}/close`);
    expectProblem(await redeem(paused.code), 410, 'campaign_ended');
    const coming = await openShared({ starts_at: '2031-01-01T00:00:00Z' });
    const early = await redeem(coming.code);
    expectProblem(early, 409, 'campaign_not_started');
    const asked = await send(`${service.url}/coupons/validate`, {
      method: 'POST',
      json: { code: coming.code, user_id: 'ann' },
    });
    // Not before an hour, with a random part.
    for (const { headers } of [early, asked]) expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(3_600);
    expect(early.body.starts_at).toBe('2031-01-01T00:00:00.000Z');
    const empty = await openShared({ total_limit: 0 });
    expectProblem(await redeem(empty.code), 410, 'sold_out');
    expectProblem(await redeem('NEVER-ISSUED-1'), 404, 'code_not_found');
  });
});

describe('a pool', () => {
  test('gives each checkout the next code, and none twice', async () => {
    const { product, codes } = await openWithCodes('pool', 4, { total_limit: 4 });
    expect((await redeem(String(codes[1]))).status).toBe(201);
    const shoppers = Array.from({ length: 5 }, () => new Shopper(service.url, product));
    const answers = await Promise.all(shoppers.map((shopper) => shopper.checkout()));
    expect(countStatuses(answers)).toEqual({ 200: 3, 410: 2 });
    const handed = answers.filter(({ status }) => status === 200).map(({ data }) => data.code);
    expect(handed.sort()).toEqual([codes[0], codes[2], codes[3]].sort());
    for (const code of codes) expectProblem(await redeem(code), 409, 'already_redeemed');
  });

  test('returns the code again to a repeated key, and to the holder of the ticket', async () => {
    const { product, codes } = await openWithCodes('pool', 1, { hold_seconds: 900 });
    const shopper = new Shopper(service.url, product);
    const key = newKey();
    const first = await shopper.checkoutWithHeader(key);
    expect(first.data.code).toBe(codes[0]);
    expect((await shopper.checkoutWithHeader(key)).text).toBe(first.text);
    expect((await shopper.queueStatus({ 'x-ticket': String(shopper.ticket) })).data.code).toBe(codes[0]);
    expect((await shopper.queueStatus()).data.code).toBeUndefined();
  });
});

describe('terms', () => {
  test('an audience admits only users that it matches, and a repeated key is replayed whatever it says by then', async () => {
    const { product, code } = await openShared({ audience: { attribute: 'tier', eq: 'gold' } });
    expectProblem(await redeem(code), 403, 'audience_mismatch');
    expectProblem(await redeem(code, { attributes: { tier: 'silver' } }), 403, 'audience_mismatch');
    const [key, fields] = [newKey(), { user_id: newUser(), order_id: 'cart-1', attributes: { tier: 'gold' } }];
    const first = await redeem(code, fields, { 'idempotency-key': key });
    expect(first.status).toBe(201);
    await operator.call('PATCH', `/admin/campaigns/${product}`, { audience: { attribute: 'tier', eq: 'black' } });
    expect((await redeem(code, fields, { 'idempotency-key': key })).text).toBe(first.text);
    expectProblem(await redeem(code, { attributes: { tier: 'gold' } }), 403, 'audience_mismatch');
  });

  test('a change holds for all codes that are not redeemed; what was redeemed keeps what it had', async () => {
    const amount = (value: number) => ({ kind: 'amount', amount: value, currency: 'IDR' });
    const { product, codes } = await openWithCodes('pool', 2, { discount: amount(100) });
    const [key, fields] = [newKey(), { user_id: newUser(), order_id: 'cart-1' }];
    const before = await redeem(String(codes[0]), fields, { 'idempotency-key': key });
    await operator.call('PATCH', `/admin/campaigns/${product}`, { discount: amount(250) });
    expect((await redeem(String(codes[1]))).data.discount).toEqual(amount(250));
    const replay = await redeem(String(codes[0]), fields, { 'idempotency-key': key });
    expect([replay.data.discount, replay.text]).toEqual([amount(100), before.text]);
  });

  test('a one-time token is needed where the campaign demands it, for its code and user, and once', async () => {
    const { code } = await openShared({ require_token: true, per_user_limit: 3 });
    const user = newUser();
    const tokenFor = async (typed: string, who: string) =>
      (await send(`${service.url}/coupons/token?code=${typed}&user_id=${who}`)).data.token as string;
    expectProblem(await redeem(code, { user_id: user }), 401, 'token_invalid');
    expectProblem(await redeem(code, { user_id: user, token: 'x' }), 401, 'token_invalid');
    expectProblem(await redeem(code, { user_id: user, token: await tokenFor(code, newUser()) }), 401, 'token_invalid');
    expectProblem(await redeem(code, { user_id: user, token: await tokenFor('OTHER', user) }), 401, 'token_invalid');
    // A fifth failure of the same user would make them wait.
    const other = newUser();
    const token = await tokenFor(code.toLowerCase(), other);
    const answers = await Promise.all(Array.from({ length: 5 }, () => redeem(code, { user_id: other, token })));
    expect(countStatuses(answers)).toEqual({ 201: 1, 401: 4 });
    expect((await redeem(code, { user_id: other, token: await tokenFor(code, other) })).status).toBe(201);
  });

  test('uniform refusals reveal only that the code cannot be used', async () => {
    const { codes, product } = await openWithCodes('pool', 3, {
      uniform_refusals: true,
      audience: { attribute: 'tier', eq: 'gold' },
    });
    const [used, foreign] = codes as [string, string];
    expect((await redeem(used, { attributes: { tier: 'gold' } })).status).toBe(201);
    const refusals = [
      await redeem(used, { attributes: { tier: 'gold' } }),
      await redeem(foreign),
      await check({ code: used, attributes: { tier: 'gold' } }),
      await check({ code: foreign }),
    ];
    const madeUp = '9'.repeat(used.length);
    const isTold = async () =>
      (await redeem(madeUp)).status === 404 && (await redeem(madeUp)).body.code === 'code_not_usable';
    await until('a made-up code of that length is refused alike', isTold);
    refusals.push(await redeem(madeUp), await check({ code: madeUp }));
    await operator.call('POST', `/admin/campaigns/${product}/close`);
    refusals.push(await redeem(foreign, { attributes: { tier: 'gold' } }), await check({ code: foreign }));
    for (const answer of refusals) expectProblem(answer, 404, 'code_not_usable');
    expectProblem(await redeem('9'.repeat(used.length + 1)), 404, 'code_not_found');
    expect(new Set(refusals.map(({ body: { instance: _, ...rest } }) => JSON.stringify(rest))).size).toBe(1);
  });
});

describe('validating', () => {
  test('returns campaign, discount and end, also on the clock of the campaign, and takes no unit', async () => {
    const { product, code } = await openShared({
      name: 'Autumn',
      discount: { kind: 'amount', amount: 500, currency: 'USD' },
      time_zone: 'America/Los_Angeles',
      ends_at: '2031-11-02',
    });
    const answer = await check({ code, cart: { subtotal: 300, currency: 'USD' } });
    expect([answer.status, answer.data]).toEqual([
      200,
      {
        valid: true,
        code,
        campaign: { product_id: product, name: 'Autumn', type: 'shared' },
        discount: { kind: 'amount', amount: 500, currency: 'USD' },
        discount_amount: 300,
        total: 0,
        free_shipping: false,
        remaining_hint: 'few',
        ends_at: '2031-11-03T08:00:00.000Z',
        ends_at_local: '2031-11-03T00:00:00.000-08:00',
        time_zone: 'America/Los_Angeles',
      },
    ]);
    await expectStock(operator, product, { total: 10, free: 10 });
  });

  test('refuses what redeeming would refuse', async () => {
    const user = newUser();
    const { code } = await openShared({ total_limit: 2 });
    await redeem(code, { user_id: user });
    expectProblem(await check({ code, user_id: user }), 409, 'already_redeemed');
    expect((await check({ code })).data.remaining_hint).toBe('few');
    await redeem(code);
    expectProblem(await check({ code }), 410, 'sold_out');
    expectProblem(await check({ code: 'NEVER-ISSUED-2' }), 404, 'code_not_found');
  });

  test('proposes the best combination of several codes, with the reason why not all combine', async () => {
    const percent = await openShared({
      discount: { kind: 'percent', percent: 10 },
      stacking: { exclusive: false, group: 'g' },
    });
    const weaker = await openShared({
      discount: { kind: 'percent', percent: 5 },
      stacking: { exclusive: false, group: 'g' },
    });
    const amount = await openShared({ discount: { kind: 'amount', amount: 100, currency: 'IDR' } });
    const gone = await openShared({ total_limit: 0, discount: { kind: 'percent', percent: 90 } });
    const codes = [weaker.code, amount.code, gone.code, percent.code, 'NEVER-ISSUED-3'];
    const { status, data } = await check({ codes, cart: { subtotal: 1_000, currency: 'IDR' } });
    expect([status, data.valid, data.discount_amount, data.total]).toEqual([200, true, 200, 800]);
    expect(data.applied.map(({ code, amount: saved }: any) => [code, saved])).toEqual([
      [percent.code, 100],
      [amount.code, 100],
    ]);
    expect(data.left_out.map(({ code, reason, conflicts_with }: any) => [code, reason, conflicts_with])).toEqual([
      [gone.code, 'sold_out', null],
      ['NEVER-ISSUED-3', 'code_not_found', null],
      [weaker.code, 'same_group', percent.code],
    ]);
  });
});

test('attempts are recorded with their outcomes', async () => {
  const { code, product } = await openShared();
  const user = newUser();
  await redeem(code, { user_id: user });
  await redeem(code, { user_id: user });
  await check({ code, user_id: user });
  await until('they are written', async () => {
    const { rows } = await service.database.client.query(
      `select action, outcome, a.code from redemption_attempts a join campaigns using (campaign_id) where product_id = $1 order by attempt_id`,
      [product],
    );
    return (
      JSON.stringify(rows) ===
      JSON.stringify([
        { action: 'redeem', outcome: 'redeemed', code },
        { action: 'redeem', outcome: 'already_redeemed', code },
        { action: 'validate', outcome: 'already_redeemed', code },
      ])
    );
  });
});

test('after all of this the ledger is clean', async () => {
  // Those of the last tests; the crowd of test/e2e/coupon-crowd.long.test.ts is counted whole.
  for (const { product_id } of (await operator.call('GET', '/admin/campaigns?limit=8')).body.data) {
    const { verdict } = await ledger(service.env, product_id);
    expect(verdict).toMatchObject({ lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] });
  }
});
