import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { newAddress } from '../harness/addresses.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { sharedService } from '../harness/service.js';
import { countStatuses, withinASecond } from '../harness/shoppers.js';

/** Shoppers who name no device: a token is not required, and the device is derived from headers and address. */
const service = await sharedService();
const operator = new Operator(service.url);
const telephone = {
  'user-agent': 'Mozilla/5.0 (Pixel 9)',
  'accept-language': 'de',
  'x-forwarded-for': newAddress(),
};
const newUser = () => `user-${randomUUID()}`;
const post = (path: string, json: Record<string, unknown>, headers: Record<string, string> = {}) =>
  send(`${service.url}${path}`, { method: 'POST', headers: { ...telephone, ...headers }, json });
const open = (terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 10_000, per_user_limit: 1_000, require_attestation: false, ...terms });
const buy = (product: string, user: string, fields: Record<string, unknown> = {}, headers = {}) =>
  post(
    '/flash-sale/checkout',
    { product_id: product, user_id: user, qty: 1, idempotency_key: randomUUID(), ...fields },
    headers,
  );

/** Statuses of 25 calls at one moment, by users who have not called before. */
async function burst(newCall: () => (i: number) => Promise<Answer>): Promise<Record<number, number>> {
  const answers = await withinASecond(() => {
    const call = newCall();
    return Promise.all(Array.from({ length: 25 }, (_, i) => call(i)));
  });
  for (const answer of answers.filter(({ status }) => status === 429)) {
    expectProblem(answer, 429, 'rate_limited');
    expect(answer.body.policy).toBe('device');
  }
  return countStatuses(answers);
}

describe('a user without a device', () => {
  test('checks out twenty times in a second, like every device', async () => {
    const product = await open();
    const oneUser = () => {
      const user = newUser();
      return () => buy(product, user);
    };
    expect(await burst(oneUser)).toEqual({ 200: 20, 429: 5 });
    // Another user with the same phone model behind the same address is not affected.
    const other = await buy(product, newUser());
    expect([other.status, other.headers.get('ratelimit')]).toEqual([200, '"device";r=19;t=1']);
  });

  test('gets no further by naming another device in each call, since a name without a token proves nothing', async () => {
    const product = await open();
    const agents = (i: number) => ({ 'user-agent': `telephone ${i}` });
    const oneUser = () => {
      const user = newUser();
      const names = (i: number) => (i % 2 === 0 ? { device_fp: `fp-${i}-${user}` } : {});
      return (i: number) =>
        post(
          '/flash-sale/checkout',
          { product_id: product, user_id: user, qty: 1, idempotency_key: randomUUID(), ...names(i) },
          agents(i),
        );
    };
    expect(await burst(oneUser)).toEqual({ 200: 20, 429: 5 });
  });

  test('redeems as often', async () => {
    const code = `CODE${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
    await open({ code, limits: { redeem_per_minute_per_user: 1_000 } });
    const oneUser = () => {
      const user = newUser();
      return () =>
        post('/coupons/redeem', { code, user_id: user, order_id: randomUUID(), idempotency_key: randomUUID() });
    };
    expect(await burst(oneUser)).toEqual({ 201: 20, 429: 5 });
  });

  test('is the same one with the device that the server derived', async () => {
    const product = await open();
    const { data } = await send(`${service.url}/flash-sale/token`, { headers: telephone });
    // Half of the calls send back what GET /flash-sale/token returned.
    const oneUser = () => {
      const user = newUser();
      return (i: number) => buy(product, user, i % 2 ? data : {});
    };
    expect(await burst(oneUser)).toEqual({ 200: 20, 429: 5 });
  });

  test('has a quota of their own in a crowd that sends back one derived device, and is no device farm', async () => {
    const product = await open({ risk: 'enforce', limits: { unusual_hours: null } });
    const { data } = await send(`${service.url}/flash-sale/token`, { headers: telephone });
    expect(await burst(() => () => buy(product, newUser(), data))).toEqual({ 200: 25 });
  });

  test('cannot be named by strangers, who can neither have it blocked nor use up its quota', async () => {
    const product = await open({ risk: 'enforce', limits: { unusual_hours: null } });
    const { data } = await send(`${service.url}/flash-sale/token`, { headers: telephone });
    const victim = newUser();
    const stranger = { 'user-agent': 'another' };
    for (let i = 0; i < 6; i += 1)
      for (const device_fp of [data.device_fp, `${data.device_fp}.${victim}`]) {
        expect((await buy(product, newUser(), { device_fp }, stranger)).status).toBe(200);
        const forged = { device_fp, attestation: data.attestation, expires_at: 1 };
        expectProblem(await buy(product, newUser(), forged, stranger), 401, 'attestation_invalid');
      }
    const named = await send(`${service.url}/flash-sale/token?device_fp=${data.device_fp}`, { headers: stranger });
    expect(named.data.device_fp).not.toBe(data.device_fp);
    expect((await send(`${service.url}/flash-sale/token`, { headers: telephone })).status).toBe(200);
    for (const fields of [{}, data])
      expect((await buy(product, victim, fields)).headers.get('ratelimit')).toMatch(/^"device";r=1[89];t=1$/);
  });

  test('cannot have a device blocked by naming it without a token', async () => {
    const product = await open({ risk: 'enforce', limits: { unusual_hours: null } });
    const device_fp = `phone-${randomUUID()}`;
    for (let i = 0; i < 6; i += 1) expect((await buy(product, newUser(), { device_fp })).status).toBe(200);
    expect((await send(`${service.url}/flash-sale/token?device_fp=${device_fp}`)).status).toBe(200);
  });
});
