import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { MemoryStore, Sale } from '../../client/sale.js';
import { solve } from '../harness/challenge.js';
import { expectProblem } from '../harness/checks.js';
import { atEnd } from '../harness/cleanup.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { startApiProcess, startService } from '../harness/service.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

// Tokens and claims cost work while an attack is on, and tokens are still given while Redis is away.

const service = await startService({ TRUST_PROXY: '1', FREE_TOKENS_PER_MINUTE: '5' });
const operator = new Operator(service.url);

const tokenFrom = (
  address: string,
  device: string = randomUUID(),
  headers: Record<string, string> = {},
): Promise<Answer> =>
  send(`${service.url}/flash-sale/token?device_fp=${device}`, { headers: { 'x-forwarded-for': address, ...headers } });
const statusesFrom = async (address: string, times: number) => {
  const statuses: number[] = [];
  for (let i = 0; i < times; i += 1) statuses.push((await tokenFrom(address)).status);
  return statuses;
};
const enforced = { total_limit: 1_000, risk: 'enforce', limits: { unusual_hours: null } };
const end = async (product: string) => {
  expect((await operator.call('POST', `/admin/campaigns/${product}/close`)).status).toBe(200);
};

test('a network that asks for many tokens is asked for work, each time, and no other', async () => {
  await operator.openCampaign({ total_limit: 1 });
  expect(await statusesFrom('192.0.2.1', 8)).toEqual(Array(8).fill(200));
  const product = await operator.openCampaign(enforced);
  expect(await statusesFrom('192.0.2.2', 7)).toEqual([200, 200, 200, 200, 200, 403, 403]);
  const device = randomUUID();
  const solution = await solve(await tokenFrom('192.0.2.2', device));
  const worked = await tokenFrom('192.0.2.2', device, { 'x-challenge-solution': solution });
  expect([worked.status, worked.data.attestation]).toEqual([200, expect.stringMatching(/^a1\.[\w-]{43}$/)]);
  for (const [again, other] of [
    [device, {}],
    [randomUUID(), { 'x-challenge-solution': solution }],
    [device, { 'x-challenge-solution': solution }],
  ] as const)
    expectProblem(await tokenFrom('192.0.2.2', again, other), 403, 'challenge_required');
  expect((await tokenFrom('192.0.2.3')).status).toBe(200);
  const allowed = { kind: 'network', subject: '192.0.2.4', effect: 'allow', reason: 'an office' };
  await operator.call('POST', '/admin/bans', allowed);
  expect(await statusesFrom('192.0.2.4', 8)).toEqual(Array(8).fill(200));
  await end(product);
});

test('a shopper with the client gets a unit although the token costs work', async () => {
  const productId = await operator.openCampaign(enforced);
  const viaProxy: typeof fetch = (url, init) => {
    const headers = new Headers(init?.headers);
    headers.set('x-forwarded-for', '192.0.2.5');
    return fetch(url, { ...init, headers });
  };
  expect((await statusesFrom('192.0.2.5', 6)).at(-1)).toBe(403);
  const shopper = { productId, userId: `user-${randomUUID()}`, baseUrl: service.url, store: new MemoryStore() };
  const sale = new Sale({ ...shopper, fetch: viaProxy, WebSocket: null });
  atEnd('the sale', () => sale.stop());
  expect((await sale.attempt()).status).toBe('completed');
  const worker = new Sale({
    ...shopper,
    productId: await operator.openCampaign({ ...enforced, limits: { ...enforced.limits, attestation_level: 1 } }),
    store: new MemoryStore(),
    fetch: viaProxy,
    WebSocket: null,
  });
  atEnd('the other sale', () => worker.stop());
  expect((await worker.attempt()).status).toBe('completed');
  await end(productId);
});

describe('a campaign that is stormed', () => {
  const calm = { ...enforced.limits, accounts_per_address: null, checkout_per_minute_per_address: 1_000_000 };
  const openStormed = () =>
    operator.openCampaign({ ...enforced, total_limit: 100_000, limits: { ...calm, surge_attempts_per_minute: 1_200 } });
  const buyFrom = (address: string, product: string, token: object = freshToken(`fp-${randomUUID()}`)) => {
    const json = { product_id: product, user_id: randomUUID(), qty: 1, idempotency_key: randomUUID(), ...token };
    const headers = { 'x-forwarded-for': address };
    return send(`${service.url}/flash-sale/checkout`, { method: 'POST', json, headers });
  };
  const anyAddress = () => `10.1.${randomInt(256)}.${randomInt(256)}`;

  /** Storms a campaign with at most 200 calls a second until the work is done. More would only measure the cores. */
  async function whileStorming(call: () => Promise<Answer>, work: () => Promise<void>): Promise<void> {
    let storming = true;
    const storm = async () => {
      while (storming) await Promise.all([sleep(100), ...Array.from({ length: 20 }, call)]);
    };
    const storms = storm();
    try {
      await work();
    } finally {
      storming = false;
    }
    await storms;
  }

  test('asks every network for work if many networks storm it, for its own claims only, and only meanwhile', async () => {
    const [product, other] = [await openStormed(), await operator.openCampaign({ ...enforced, limits: calm })];
    const fromMany = () => buyFrom(anyAddress(), product);
    await whileStorming(fromMany, async () => {
      await until('a claim costs work', async () => (await buyFrom(anyAddress(), product)).status === 403);
      expect((await tokenFrom(anyAddress())).status).toBe(200);
      expect((await buyFrom(anyAddress(), other)).status).toBe(200);
    });
    // Without a token, because these calls would storm it too.
    await until('it does not any more', async () => (await buyFrom(anyAddress(), product, {})).status === 401);
    expect((await buyFrom(anyAddress(), product)).status).toBe(200);
    await end(product);
    await end(other);
  });

  test('asks the network that storms it, and no other', async () => {
    const product = await openStormed();
    const fromOne = () => buyFrom('198.51.100.7', product);
    await whileStorming(fromOne, async () => {
      await until('it costs work', async () => (await fromOne()).status === 403);
      // Fewer than the twenty a second that would be a storm of many networks.
      for (let i = 0; i < 10; i += 1) {
        expect((await tokenFrom(anyAddress())).status).toBe(200);
        expect((await buyFrom(anyAddress(), product)).status).toBe(200);
      }
    });
    await end(product);
  });

  test('asks for no work because of calls without a token', async () => {
    const product = await openStormed();
    const withoutToken = () => buyFrom(anyAddress(), product, {});
    await whileStorming(withoutToken, async () => {
      for (let i = 0; i < 20; i += 1) {
        await withoutToken();
        expect((await tokenFrom(anyAddress())).status).toBe(200);
        expect((await buyFrom(anyAddress(), product)).status).toBe(200);
      }
    });
    await end(product);
  });
});

test('while Redis is away tokens are issued, up to their limit in each process, and checkouts get 503', async () => {
  const { url } = await startApiProcess({ ...service.env, TOKENS_PER_MINUTE: '3' });
  const from = (address: string) =>
    send(`${url}/flash-sale/token?device_fp=fp`, { headers: { 'x-forwarded-for': address } });
  await service.redis.stop();
  await until('it is noticed', async () => {
    const json = { product_id: 'p', user_id: 'u', qty: 1, idempotency_key: randomUUID(), ...freshToken('fp-other') };
    return (await send(`${url}/flash-sale/checkout`, { method: 'POST', json })).status === 503;
  });
  const statuses = [];
  for (let i = 0; i < 5; i += 1) statuses.push((await from('192.0.2.9')).status);
  expect(statuses).toEqual([200, 200, 200, 429, 429]);
});
