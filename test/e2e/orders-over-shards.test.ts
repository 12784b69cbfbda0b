import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { OrderId, ProductId, UserId } from '../../shared/domain/ids.js';
import { shardOfProduct } from '../../shared/domain/shards.js';
import { keys } from '../../shared/redis/keys.js';
import { expectProblem, expectRows } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { connectToRedis } from '../harness/sale.js';
import { type Service, startService } from '../harness/service.js';
import { countStatuses } from '../harness/shoppers.js';
import { until } from '../harness/until.js';

/** Exclusive codes on one order that Redis alone cannot compare. */
const SHARDS = 4;
const limits = { REDEEM_PER_MINUTE_PER_USER: '1000' };
const [one, several] = [await startService(limits), await startService({ ...limits, SHARDS: String(SHARDS) })];
const newUser = () => `user-${randomUUID()}`;

async function open({ url }: Service, terms: Record<string, unknown> = {}) {
  const code = `CODE${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
  const shared = { code, total_limit: 100, per_user_limit: 9, stacking: { exclusive: true }, ...terms };
  return { code, product: await new Operator(url).openCampaign(shared) };
}

/** One campaign in each shard. */
async function openInEach(terms: Record<string, unknown> = {}) {
  const found = new Map<number, Awaited<ReturnType<typeof open>>>();
  await until('each shard has a campaign', async () => {
    const campaign = await open(several, terms);
    found.set(shardOfProduct(campaign.product as ProductId, SHARDS), campaign);
    return found.size === SHARDS;
  });
  return [...found.values()];
}

const redeem = ({ url }: Service, code: string, user: string, order: string, key = randomUUID()): Promise<Answer> =>
  send(`${url}/coupons/redeem`, {
    method: 'POST',
    headers: { 'Idempotency-Key': key },
    json: { code, user_id: user, order_id: order },
  });

describe('POST /coupons/redeem', () => {
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

  test('lets codes that combine share an order over shards without waiting for Postgres', async () => {
    const campaigns = await openInEach({ stacking: { exclusive: false } });
    const user = newUser();
    const answers = await Promise.all(campaigns.map(({ code }) => redeem(several, code, user, 'cart-1')));
    expect(countStatuses(answers)).toEqual({ 201: SHARDS });
    for (const { data } of answers) expect(data.durability).toBe('journaled');
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
});
