import { randomInt, randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { MemoryStore, Sale } from '../../client/sale.js';
import { solve } from '../harness/challenge.js';
import { expectProblem } from '../harness/checks.js';
import { atEnd } from '../harness/cleanup.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { startApiProcess, startService } from '../harness/service.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

// Tokens cost work while an attack is on, and are still given while Redis is away.

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

test('a campaign that is stormed makes tokens cost work for every network, and only while it is', async () => {
  const product = await operator.openCampaign({
    ...enforced,
    limits: { ...enforced.limits, surge_attempts_per_minute: 1_200 },
  });
  let storming = true;
  const storm = async () => {
    while (storming)
      await Promise.all(
        Array.from({ length: 100 }, () => {
          const json = {
            product_id: product,
            user_id: randomUUID(),
            qty: 1,
            idempotency_key: randomUUID(),
            ...freshToken(`fp-${randomUUID()}`),
          };
          return send(`${service.url}/flash-sale/checkout`, { method: 'POST', json });
        }),
      );
  };
  const storms = Promise.all([storm(), storm()]);
  // Each from a network of its own.
  const asked = async () => (await tokenFrom(`10.1.${randomInt(256)}.${randomInt(256)}`)).status;
  try {
    await until('a token costs work', async () => (await asked()) === 403);
  } finally {
    storming = false;
  }
  await storms;
  await until('it does not any more', async () => (await asked()) === 200);
  await end(product);
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
