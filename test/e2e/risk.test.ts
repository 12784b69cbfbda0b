import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { newAddress } from '../harness/addresses.js';
import { solve } from '../harness/challenge.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { keyNames } from '../harness/key-names.js';
import { metricsText } from '../harness/metrics.js';
import { sharedService } from '../harness/service.js';
import { countStatuses, withinASecond } from '../harness/shoppers.js';
import { freshToken } from '../harness/tokens.js';
import { until } from '../harness/until.js';

const service = await sharedService();
const operator = new Operator(service.url);
const NO_HOURS = { unusual_hours: null };
const open = (risk: string, limits: Record<string, unknown> = {}, terms: Record<string, unknown> = {}) =>
  operator.openCampaign({ total_limit: 10_000, risk, limits: { ...NO_HOURS, ...limits }, ...terms });

/** Where shoppers are whose address a test does not name. */
const HOME = newAddress();
type Who = { user?: string; device?: string; address?: string; fields?: Record<string, unknown> };
function buy(product: string, { user, device, address = HOME, fields = {} }: Who): Promise<Answer> {
  return send(`${service.url}/flash-sale/checkout`, {
    method: 'POST',
    headers: { 'x-forwarded-for': address },
    json: {
      product_id: product,
      user_id: user ?? `user-${randomUUID()}`,
      qty: 1,
      ...freshToken(device ?? `fp-${randomUUID()}`),
      idempotency_key: randomUUID(),
      ...fields,
    },
  });
}
const verdicts = async (rule: string, mode: string) => {
  const text = await metricsText(service.url);
  const line = text
    .split('\n')
    .find(
      (one) => one.includes('risk_verdicts_total{') && one.includes(`rule="${rule}"`) && one.includes(`mode="${mode}"`),
    );
  return Number(line?.split(' ').at(-1) ?? 0);
};
const inTurn = async (times: number, call: (i: number) => Promise<Answer>) => {
  const answers: Answer[] = [];
  for (let i = 0; i < times; i += 1) answers.push(await call(i));
  return answers;
};

describe('rules that are enforced', () => {
  test('block a device with its fifth account, in every campaign, and no other device', async () => {
    const product = await open('enforce');
    const before = await verdicts('accounts_per_device', 'enforce');
    const device = `fp-${randomUUID()}`;
    const answers = await inTurn(6, () => buy(product, { device }));
    expect(countStatuses(answers)).toEqual({ 200: 4, 403: 2 });
    for (const refused of answers.slice(4)) expectProblem(refused, 403, 'blocked');
    const other = await open('off');
    expectProblem(await buy(other, { device }), 403, 'blocked');
    expect((await buy(product, {})).status).toBe(200);
    const [ban] = await until('it is listed', async () => {
      const found = (await operator.call('GET', `/admin/bans?kind=device&subject=${device}`)).data as unknown as any[];
      return found.length === 1 ? found : null;
    });
    expect([ban.actor, ban.reason]).toEqual(['rule:accounts_per_device', '5 accounts on one device']);
    expect((await verdicts('accounts_per_device', 'enforce')) - before).toBe(1);
  });

  test('count the same user of a device once', async () => {
    const product = await open('enforce', {}, { per_user_limit: 100 });
    const device = `fp-${randomUUID()}`;
    const answers = await inTurn(8, () => buy(product, { device, user: 'user-faithful' }));
    expect(countStatuses(answers)).toEqual({ 200: 8 });
  });

  test('ask for work beyond a number of accounts of one address, and admit users with a solution', async () => {
    const product = await open('enforce', { accounts_per_address: 10 });
    const address = newAddress();
    // Names of their own: a hyperloglog is exact for these, and one in a hundred off for others.
    const answers = await inTurn(12, (i) => buy(product, { address, user: `neighbour-${i}` }));
    expect(countStatuses(answers)).toEqual({ 200: 10, 403: 2 });
    const who = { address, user: 'user-patient', device: 'fp-patient' };
    const challenge_solution = await solve(await buy(product, who));
    expect((await buy(product, { ...who, fields: { challenge_solution } })).status).toBe(200);
    expect((await buy(product, { address: newAddress() })).status).toBe(200);
  });

  test('ask a young account for work, at checkout and with a code', async () => {
    const code = `AGE${randomUUID().slice(0, 8).toUpperCase()}`;
    const product = await open('enforce', { account_min_age_hours: 24 }, { code });
    const aged = (hours: number) => ({ account_created_at: new Date(Date.now() - hours * 3_600_000).toISOString() });
    const redeem = (attributes: Record<string, unknown>) => {
      const json = { code, user_id: randomUUID(), order_id: 'o', idempotency_key: randomUUID(), attributes };
      return send(`${service.url}/coupons/redeem`, {
        method: 'POST',
        json,
        headers: { 'x-forwarded-for': newAddress() },
      });
    };
    expectProblem(await buy(product, { fields: { attributes: aged(1) } }), 403, 'challenge_required');
    expect((await buy(product, { fields: { attributes: aged(25) } })).status).toBe(200);
    expectProblem(await redeem(aged(1)), 403, 'challenge_required');
    expect((await redeem(aged(25))).status).toBe(201);
    expect((await redeem({})).status).toBe(201);
  });

  test('ask for work at unusual hours of the campaign’s own zone', async () => {
    const hourIn = (timeZone: string) =>
      Number(new Intl.DateTimeFormat('en', { timeZone, hour: 'numeric', hourCycle: 'h23' }).format(new Date()));
    const zones = ['UTC', 'Asia/Jakarta', 'America/Los_Angeles'];
    for (const time_zone of zones) {
      const here = hourIn(time_zone);
      const now = await open('enforce', { unusual_hours: { from: here, to: (here + 2) % 24 || 24 } }, { time_zone });
      const later = await open(
        'enforce',
        { unusual_hours: { from: (here + 4) % 24, to: (here + 6) % 24 || 24 } },
        { time_zone },
      );
      expectProblem(await buy(now, {}), 403, 'challenge_required');
      expect((await buy(later, {})).status).toBe(200);
    }
  });

  test('leave alone whom an operator has allowed', async () => {
    const product = await open('enforce', { accounts_per_address: 1 });
    const device = `fp-${randomUUID()}`;
    await operator.call('POST', '/admin/bans', {
      effect: 'allow',
      kind: 'device',
      subject: device,
      reason: 'the till',
    });
    const address = newAddress();
    const answers = await inTurn(8, () => buy(product, { device, address }));
    expect(countStatuses(answers)).toEqual({ 200: 8 });
  });
});

describe('checkouts from one address', () => {
  const limits = { accounts_per_address: null, checkout_per_minute_per_address: 10 };

  test('are asked for work beyond their limit, which those who do it go past, and replays cost nothing', async () => {
    const product = await open('enforce', limits);
    const address = newAddress();
    const answers = await inTurn(12, () => buy(product, { address }));
    expect(countStatuses(answers)).toEqual({ 200: 10, 403: 2 });
    for (const refused of answers.slice(10)) expectProblem(refused, 403, 'challenge_required');
    for (let i = 0; i < 3; i += 1) {
      const [user, device] = [`user-${randomUUID()}`, `fp-${randomUUID()}`];
      const challenge_solution = await solve(await buy(product, { user, device, address }));
      expect((await buy(product, { user, device, address, fields: { challenge_solution } })).status).toBe(200);
    }
    const storm = await inTurn(50, () => buy(product, { address }));
    for (const refused of storm) expectProblem(refused, 403, 'challenge_required');
    expect((await buy(product, { address: newAddress() })).status).toBe(200);
    const neighbour = await open('observe');
    expect((await buy(neighbour, { address })).status).toBe(200);
  });

  test('are counted if a solved challenge is sent again with a claim that fails', async () => {
    const product = await open('enforce', limits, { total_limit: 10 });
    const address = newAddress();
    expect(countStatuses(await inTurn(10, () => buy(product, { address })))).toEqual({ 200: 10 });
    const [user, device, idempotency_key] = [`user-${randomUUID()}`, `fp-${randomUUID()}`, randomUUID()];
    const challenge_solution = await solve(await buy(product, { user, device, address }));
    const again = { user, device, address, fields: { challenge_solution, idempotency_key } };
    for (const late of await inTurn(4, () => buy(product, again))) expectProblem(late, 410, 'sold_out');
    expectProblem(await buy(product, { address }), 403, 'challenge_required');
  });

  test('do not count repetitions, and never refuse one', async () => {
    const product = await open('enforce', limits);
    const address = newAddress();
    const [user, device, idempotency_key] = [`user-${randomUUID()}`, `fp-${randomUUID()}`, randomUUID()];
    const repeat = () => buy(product, { user, device, address, fields: { idempotency_key } });
    expect((await repeat()).status).toBe(200);
    const repeated = await inTurn(30, repeat);
    for (const answer of repeated) expectProblem(answer, 409, 'duplicate_request');
    expect(countStatuses(await inTurn(9, () => buy(product, { address })))).toEqual({ 200: 9 });
    expectProblem(await buy(product, { address }), 403, 'challenge_required');
    expectProblem(await repeat(), 409, 'duplicate_request');
  });

  test('have it also where a pool hands out codes', async () => {
    const product = await open('enforce', limits, { type: 'pool', waiting_room: { enabled: true } });
    const address = newAddress();
    const answers = await inTurn(12, () => buy(product, { address }));
    expect(countStatuses(answers)).toEqual({ 202: 10, 403: 2 });
  });

  test('are only counted where the rules observe: an office buys', async () => {
    const product = await open('observe', limits);
    const before = await verdicts('checkout_per_address', 'observe');
    const address = newAddress();
    const answers = await Promise.all(Array.from({ length: 30 }, () => buy(product, { address })));
    expect(countStatuses(answers)).toEqual({ 200: 30 });
    expect((await verdicts('checkout_per_address', 'observe')) - before).toBe(20);
  });

  test('have no limit for an address that an operator has allowed', async () => {
    const product = await open('enforce', limits);
    const address = newAddress();
    await operator.call('POST', '/admin/bans', {
      effect: 'allow',
      kind: 'network',
      subject: address,
      reason: 'office',
    });
    expect(countStatuses(await inTurn(60, () => buy(product, { address })))).toEqual({ 200: 60 });
  });
});

describe('rules that only observe', () => {
  test('refuse no request, and count their verdicts', async () => {
    const product = await open('observe', { accounts_per_address: 10 });
    const device = `fp-${randomUUID()}`;
    const before = [
      await verdicts('accounts_per_device', 'observe'),
      await verdicts('accounts_per_address', 'observe'),
    ];
    const address = newAddress();
    const answers = await inTurn(15, () => buy(product, { device, address }));
    expect(countStatuses(answers)).toEqual({ 200: 15 });
    const after = [await verdicts('accounts_per_device', 'observe'), await verdicts('accounts_per_address', 'observe')];
    expect([Number(after[0]) - Number(before[0]), Number(after[1]) - Number(before[1])]).toEqual([11, 5]);
  });

  test('ask for work from a device that more users have tried from than any household has', async () => {
    const product = await open('observe');
    const burst = await withinASecond(() => {
      const device = `fp-${randomUUID()}`;
      return Promise.all(Array.from({ length: 25 }, () => buy(product, { device })));
    });
    expect(countStatuses(burst)).toEqual({ 200: 20, 429: 5 });
    const device = `fp-${randomUUID()}`;
    // At least three seconds of the device's quota. Attempts that get nothing do not count.
    let served = 0;
    await until('sixty users were served on the device', async () => {
      const { status } = await buy(product, { device });
      expect([200, 429]).toContain(status);
      served += status === 200 ? 1 : 0;
      return served === 60;
    });
    const refused = await until('the quota is over', async () => {
      const answer = await buy(product, { device });
      return answer.status === 429 ? null : answer;
    });
    expectProblem(refused, 403, 'challenge_required');
    const other = `fp-${randomUUID()}`;
    expect((await buy(product, { device: other })).status).toBe(200);
    for (const elsewhere of [await open('observe', { accounts_per_device: null }), await open('off')])
      await until('it buys where the rule is off', async () => (await buy(elsewhere, { device })).status === 200);
  });

  test('ask Redis nothing more than rules that are off', async () => {
    // BullMQ has sets of its own, so the keys are looked at as well.
    const left = new Set(await keyNames(service.redis.client, 'db1:w:*'));
    const evaluated = async () => {
      const stats = await service.redis.client.info('commandstats');
      const calls = (name: string) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
      return [
        calls('pfadd'),
        calls('pfcount'),
        (await keyNames(service.redis.client, 'db1:w:*')).filter((key) => !left.has(key)),
      ];
    };
    const before = await evaluated();
    for (const risk of ['observe', 'off']) {
      const product = await open(risk);
      await inTurn(10, () => buy(product, {}));
    }
    expect(await evaluated()).toEqual(before);
  });
});

test('a change of the rules is in force with the answer to the operator', async () => {
  const product = await open('off');
  const device = `fp-${randomUUID()}`;
  await inTurn(6, () => buy(product, { device }));
  await operator.call('PATCH', `/admin/campaigns/${product}`, {
    risk: 'enforce',
    limits: { ...NO_HOURS, accounts_per_device: 1 },
  });
  expectProblem(await buy(product, { device }), 403, 'blocked');
});
