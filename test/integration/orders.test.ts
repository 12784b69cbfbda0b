import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { OrderId, UserId } from '../../shared/domain/ids.js';
import { campaignKeys, keys } from '../../shared/redis/keys.js';
import { restoreCampaign } from '../../worker/recovery/restore-campaign.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale, TEST_LIMITS } from '../harness/sale.js';

/** What is on an order of a user, in Postgres and in a Redis that forgot it. */
const sale = await startSale();
const store = await startPersistence(sale);
afterEach(() => sale.expectConsistent());

const EXCLUSIVE = { exclusive: true };
const open = (stacking: object | null, terms: Parameters<typeof store.openCampaign>[0] = {}) =>
  store.openCampaign({ perUserLimit: 9, ...terms }, stacking ? { stacking } : {});
let number = 0;
let order = '';
beforeEach(() => {
  number += 1;
  order = `cart-${number}`;
});
const orderKey = () => keys.order('ann' as UserId, order as OrderId);
const use = (campaign: TestCampaign, user = 'ann') => campaign.use(user, 0, { order });
const redeem = async (campaign: TestCampaign) => (await campaign.redeem('ann', 0, { order })).kind;
const rowOf = async (id: string) => {
  const { rows } = await store.sql.query('select status, stacking, reason from redemptions where redemption_id = $1', [
    id,
  ]);
  return rows[0];
};
/** Redis loses what is on the order, and nothing else. */
const forget = () => sale.redis.unlink(orderKey());

describe('Postgres', () => {
  test('keeps how each reservation takes part; of a plain checkout nothing', async () => {
    const [group, plain] = [await open({ exclusive: false, group: 'spring sale, 2026' }), await open(null)];
    const [grouped, coupon, checkout] = [await use(group), await use(plain), await plain.take('bob')];
    await store.persist();
    expect(await rowOf(grouped)).toEqual({
      status: 'reserved',
      stacking: 'group:spring%20sale%2C%202026',
      reason: null,
    });
    expect(await rowOf(coupon)).toMatchObject({ stacking: 'combines' });
    expect(await rowOf(checkout)).toMatchObject({ stacking: null });
  });

  test.each([
    ['exclusive after another', null, EXCLUSIVE, 'redemptions_combinable'],
    ['another after exclusive', EXCLUSIVE, null, 'redemptions_combinable'],
    ['two exclusive ones', EXCLUSIVE, EXCLUSIVE, 'redemptions_one_per_order'],
    ['two of a group', { exclusive: false, group: 'a' }, { exclusive: false, group: 'a' }, 'redemptions_one_per_order'],
  ])(
    'refuses what a Redis that forgot has allowed, in one batch or in two: %s',
    async (_, first, second, constraint) => {
      for (const batches of [1, 2]) {
        order = `cart-${number}-${batches}`;
        const [one, other] = [await open(first), await open(second)];
        const kept = await use(one);
        if (batches === 2) await store.persist();
        await forget();
        const refused = await use(other);
        await store.persist();
        await store.persist();
        expect(await store.bothSides(one, [kept])).toEqual([['reserved', 'reserved', null]]);
        expect(await store.bothSides(other, [refused])).toEqual([['voided', 'voided', constraint]]);
        expect(await other.stock()).toMatchObject({ free: 10, held: 0 });
        const { rows } = await store.sql.query('select data from outbox_events where subject = $1 and type like $2', [
          refused,
          '%.voided.v1',
        ]);
        expect(rows.map(({ data }) => data.reason)).toEqual([constraint]);
      }
      expect(await store.rejects()).toEqual([]);
    },
  );

  test('accepts two groups, codes that combine, other users, and an order that is free again', async () => {
    const [a, b, plain, exclusive] = [
      await open({ exclusive: false, group: 'a' }),
      await open({ exclusive: false, group: 'b' }),
      await open(null),
      await open(EXCLUSIVE),
    ];
    const ids = [await use(a), await use(b), await use(plain), await use(plain)];
    await use(exclusive, 'bob');
    for (const [i, campaign] of [a, b, plain, plain].entries()) await campaign.release(String(ids[i]));
    const last = await use(exclusive);
    await exclusive.confirm(last);
    await store.persist();
    expect((await rowOf(last))?.status).toBe('redeemed');
    expect(await store.rejects()).toEqual([]);
    const { rows } = await store.sql.query(
      "select count(*)::int as n from redemptions where order_id = $1 and status = 'voided'",
      [order],
    );
    expect(rows).toEqual([{ n: 0 }]);
  });

  test('refuses a late payment of an order that another code is on', async () => {
    const [late, other] = [await open(EXCLUSIVE, { latePayment: 'reacquire' }), await open(null)];
    const id = await use(late);
    await late.release(id);
    const kept = await use(other);
    await forget();
    expect(await late.confirm(id)).toMatchObject({ reacquired: true });
    await store.persist();
    expect(await store.bothSides(late, [id])).toEqual([['voided', 'voided', 'redemptions_combinable']]);
    expect((await rowOf(kept))?.status).toBe('reserved');
  });

  test.each(['one batch', 'two batches'])('knows how a promoted user takes part, persisted in %s', async (batches) => {
    const campaign = await open(EXCLUSIVE, { totalLimit: 1 });
    const held = await campaign.take('holder');
    await campaign.redeem('ann', 0, { order });
    if (batches === 'two batches') await store.persist();
    // The rule of the place holds, whatever the terms are when it is promoted.
    await campaign.amend({ stacking: 'combines' });
    await campaign.release(held);
    const promoted = String((await campaign.person('ann'))?.reservation);
    // Refused batches have made those of the usual one small.
    await store.persist(store.persistWith());
    expect(await rowOf(promoted)).toMatchObject({ status: 'reserved', stacking: 'exclusive' });
  });
});

describe('a Redis that is filled from Postgres', () => {
  async function loseAndRestore(...campaigns: TestCampaign[]): Promise<void> {
    await store.persist();
    await forget();
    for (const { product } of campaigns) await sale.redis.del(...campaignKeys(product));
    await sale.fill(async (token) => {
      for (const { product } of campaigns) {
        const stored = await store.campaigns.find(product);
        if (!stored) throw new Error('the campaign is not in Postgres');
        const parts = { database: store.database, cursor: store.cursor, sale: sale.store, log: store.log };
        await restoreCampaign(
          { ...parts, idempotencyTtlMs: TEST_LIMITS.idempotencyTtlMs },
          stored,
          await sale.nowMs(),
          token,
        );
      }
    });
  }

  test('knows what is on an order, of several campaigns and of those in line, and what has left it', async () => {
    const [a, b, full] = [
      await open({ exclusive: false, group: 'a' }),
      await open(null),
      await open({ exclusive: false, group: 'c' }, { totalLimit: 1 }),
    ];
    const left = await use(a);
    await a.release(left);
    const [first, second] = [await use(a), await use(b)];
    await full.take('holder');
    await full.redeem('ann', 0, { order });
    const waiting = String((await full.person('ann'))?.reservation);
    await loseAndRestore(a, b, full);
    const claims = [`${left}=ended`, `${first}=group:a`, `${second}=combines`, `${waiting}=group:c`];
    expect(await sale.redis.get(orderKey())).toBe(claims.join());
    const ttl = await sale.redis.pttl(orderKey());
    expect(ttl > 0 && ttl <= TEST_LIMITS.orderMemoryMs).toBe(true);
    expect(await redeem(await open(EXCLUSIVE))).toBe('not_combinable');
    expect(await redeem(await open({ exclusive: false, group: 'c' }))).toBe('not_combinable');
    expect(await redeem(await open({ exclusive: false, group: 'b' }))).toBe('reserved');
  });

  test('does not bring back what it would have forgotten', async () => {
    const campaign = await open(EXCLUSIVE);
    const id = await use(campaign);
    await store.persist();
    await store.sql.query(
      "update redemptions set reserved_at = reserved_at - $2 * interval '1 ms' where redemption_id = $1",
      [id, TEST_LIMITS.orderMemoryMs],
    );
    await loseAndRestore(campaign);
    expect(await sale.redis.exists(orderKey())).toBe(0);
  });

  test('knows the orders of a campaign that is over, whose records stay in Postgres', async () => {
    const campaign = await open(EXCLUSIVE, { holdSeconds: 0 });
    await use(campaign);
    await campaign.setStatus('close');
    await loseAndRestore(campaign);
    expect(await sale.redis.hexists(keys.campaign(campaign.product), 'archived')).toBe(1);
    expect(await sale.redis.exists(orderKey())).toBe(1);
  });
});
