import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { OrderId, UserId } from '../../shared/domain/ids.js';
import { keys } from '../../shared/redis/keys.js';
import { expectProblem, expectRows } from '../harness/checks.js';
import { type Answer, Operator, PaymentService, send } from '../harness/clients.js';
import { connectToRedis } from '../harness/sale.js';
import { type Service, sharedService, startService } from '../harness/service.js';
import { countStatuses } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** Exclusive codes on one order that Redis alone cannot compare. */
const SHARDS = 4;
const one = await sharedService();
const several = await startService({ REDEEM_PER_MINUTE_PER_USER: '1000', SHARDS: String(SHARDS) });
const newUser = () => `user-${randomUUID()}`;

async function open({ url }: Service, terms: Record<string, unknown> = {}) {
  const code = `CODE${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
  const shared = { code, total_limit: 100, per_user_limit: 9, stacking: { exclusive: true }, ...terms };
  return { code, product: await new Operator(url).openCampaign(shared) };
}

/** One campaign in each shard: new campaigns spread over them. */
const openInEach = async (terms: Record<string, unknown> = {}) => {
  const campaigns: Awaited<ReturnType<typeof open>>[] = [];
  for (let i = 0; i < SHARDS; i += 1) campaigns.push(await open(several, terms));
  return campaigns;
};

/** As a client does: again with the same key when the commit takes too long. */
const redeem = async ({ url }: Service, code: string, user: string, order: string, key = randomUUID()) => {
  const ask = (): Promise<Answer> =>
    send(`${url}/coupons/redeem`, {
      method: 'POST',
      headers: { 'Idempotency-Key': key },
      json: { code, user_id: user, order_id: order },
    });
  return until('it has a response', async () => {
    const answer = await ask();
    return answer.status !== 503 && answer;
  });
};

describe('POST /coupons/redeem', () => {
  // First, while no campaign of the installation has exclusive codes.
  test('lets codes that combine share an order over shards without waiting for Postgres', async () => {
    const campaigns = await openInEach({ stacking: { exclusive: false } });
    const user = newUser();
    const postgres = several.database.client;
    await postgres.query('begin');
    await postgres.query('select * from journal_cursor for update');
    const answers = await Promise.all(campaigns.map(({ code }) => redeem(several, code, user, 'cart-1')));
    await postgres.query('rollback');
    expect(countStatuses(answers)).toEqual({ 201: SHARDS });
    for (const { data } of answers) expect(data.durability).toBe('journaled');
  });

  test('refuses codes that combine beside an exclusive one of another shard, and the order can be paid', async () => {
    const campaigns = await openInEach({ stacking: { exclusive: false } });
    const [changed, ...plain] = campaigns as [(typeof campaigns)[0], ...typeof campaigns];
    const operator = new Operator(several.url);
    await operator.call('PATCH', `/admin/campaigns/${changed.product}`, { stacking: { exclusive: true } });
    for (const [i, [first, ...others]] of [
      [changed, ...plain],
      [...plain, changed],
    ].entries()) {
      const [user, order] = [newUser(), `cart-${randomUUID()}`];
      const taken = await redeem(several, String(first?.code), user, order);
      expect(taken.status).toBe(201);
      const answers = await Promise.all(others.map(({ code }) => redeem(several, code, user, order)));
      // Codes that combine exclude only the exclusive one, which is the last of the second round.
      expect(countStatuses(answers)).toEqual(i === 0 ? { 409: SHARDS - 1 } : { 201: SHARDS - 2, 409: 1 });
      for (const answer of answers) if (answer.status === 409) expectProblem(answer, 409, 'not_combinable');
      const { status } = await new PaymentService(several.url).say('confirm', { order_id: order });
      expect(status).toBe(200);
    }
    const user = newUser();
    expect((await redeem(several, changed.code, user, 'cart-1')).status).toBe(201);
    // The code keeps the terms under which it was redeemed.
    await operator.call('PATCH', `/admin/campaigns/${changed.product}`, { stacking: { exclusive: false } });
    for (const { code } of plain) expectProblem(await redeem(several, code, user, 'cart-1'), 409, 'not_combinable');
  });

  test('refuses the second exclusive code on an order also if its campaign is in another shard', async () => {
    const campaigns = await openInEach();
    const user = newUser();
    const tries = campaigns.map(({ code }) => ({ code, key: randomUUID() }));
    const answers = await Promise.all(tries.map(({ code, key }) => redeem(several, code, user, 'cart-1', key)));
    expect(countStatuses(answers)).toEqual({ 201: 1, 409: SHARDS - 1 });
    for (const answer of answers) if (answer.status === 409) expectProblem(answer, 409, 'not_combinable');
    const again = await Promise.all(tries.map(({ code, key }) => redeem(several, code, user, 'cart-1', key)));
    expect(again.map(({ status }) => status)).toEqual(answers.map(({ status }) => status));
    for (const { code } of campaigns) expect((await redeem(several, code, newUser(), 'cart-1')).status).toBe(201);
  });

  test('never says that a redemption is committed that Postgres has refused', async () => {
    const durable = { confirmation: 'durable' };
    const [first, second] = [await open(one, durable), await open(one, durable)];
    const user = newUser();
    const taken = await redeem(one, first.code, user, 'cart-1');
    expect([taken.status, taken.data.durability]).toEqual([201, 'committed']);
    // As after seven days.
    const redis = await connectToRedis(one.redis.url);
    expect(await redis.del(keys.order(user as UserId, 'cart-1' as OrderId))).toBe(1);
    const key = randomUUID();
    expectProblem(await redeem(one, second.code, user, 'cart-1', key), 409, 'reservation_voided');
    expectProblem(await redeem(one, second.code, user, 'cart-1', key), 409, 'reservation_voided');
    await expectRows(one, second.product, { voided: 1 });
  });

  test('a late payment takes no code again that Postgres then refuses', async () => {
    const late = await open(several, { hold_seconds: 1, late_payment: 'reacquire' });
    for (const paid of await openInEach({ hold_seconds: 900 })) {
      const [user, order] = [newUser(), `cart-${randomUUID()}`];
      const id = String((await redeem(several, late.code, user, order)).data.reservation_id);
      await until('it has expired', async () => {
        const sql = 'select status from redemptions where redemption_id = $1';
        return (await several.database.client.query(sql, [id])).rows[0]?.status === 'expired';
      });
      expect((await redeem(several, paid.code, user, order)).status).toBe(201);
      const answer = await new PaymentService(several.url).confirm(id, 'pay-late');
      expect([answer.status, answer.body.code]).toEqual([
        409,
        expect.stringMatching(/^reservation_(voided|released)$/),
      ]);
    }
  });
});
