import { afterEach, describe, expect, test } from '@jest/globals';
import type { Campaign } from '../../../shared/domain/campaign.js';
import { type OrderId, orderIdOf, type UserId } from '../../../shared/domain/ids.js';
import { keys } from '../../../shared/redis/keys.js';
import { newKey, type TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

/** Which codes may be on one order of a user. */
const sale = await startSale();
afterEach(() => sale.expectConsistent());

const open = (stacking: string, terms: Partial<Campaign> = {}) =>
  sale.openCampaign({ stacking, perUserLimit: 200, totalLimit: 1_000, ...terms });
const cart = { order: 'cart-1' };
const redeem = async (campaign: TestCampaign, user = 'ann', options = cart) =>
  (await campaign.redeem(user, 0, options)).kind;
const orderOf = (user: string, order = 'cart-1') => keys.order(user as UserId, order as OrderId);

/** What a code of each campaign meets on an order of a new user that has one of the other campaign already. */
async function expectTogether(first: string, second: string, outcome: string): Promise<void> {
  const [one, other] = [await open(first), await open(second)];
  const before = await other.inRedis();
  expect([await redeem(one), await redeem(other)]).toEqual(['reserved', outcome]);
  if (outcome === 'not_combinable') expect(await other.inRedis()).toEqual(before);
}

describe('a second code on an order', () => {
  test.each([
    ['combines', 'combines', 'reserved'],
    ['exclusive', 'combines', 'not_combinable'],
    ['combines', 'exclusive', 'not_combinable'],
    ['exclusive', 'exclusive', 'not_combinable'],
    ['group:a', 'group:a', 'not_combinable'],
    ['group:a', 'group:b', 'reserved'],
    ['group:a', 'combines', 'reserved'],
    ['exclusive', 'group:a', 'not_combinable'],
    ['group:a', 'exclusive', 'not_combinable'],
  ])('of a campaign after one of another: %s, then %s: %s', async (first, second, outcome) => {
    await sale.redis.unlink(orderOf('ann'));
    await expectTogether(first, second, outcome);
  });

  test('is refused within one campaign too, unless it combines', async () => {
    const [exclusive, plain] = [await open('exclusive'), await open('combines')];
    expect([await redeem(exclusive, 'bob'), await redeem(exclusive, 'bob')]).toEqual(['reserved', 'not_combinable']);
    expect([await redeem(plain, 'cid'), await redeem(plain, 'cid')]).toEqual(['reserved', 'reserved']);
  });

  test('is refused only on an order of the same user, so no user can block another’s order id', async () => {
    const campaign = await open('exclusive');
    expect([await redeem(campaign, 'mallory'), await redeem(campaign, 'victim')]).toEqual(['reserved', 'reserved']);
    expect(await redeem(campaign, 'mallory', { order: 'cart-2' })).toBe('reserved');
  });

  test('gets the first response again with its key, whatever is on the order since', async () => {
    const [exclusive, key] = [await open('exclusive'), newKey()];
    await exclusive.use('dan', 0, { ...cart, key });
    expect((await exclusive.redeem('dan', 0, { ...cart, key })).kind).toBe('replayed');
  });

  test('uses no one-time token and no code when it is refused', async () => {
    const first = await open('exclusive');
    await redeem(first, 'eve');
    const other = await open('combines', { type: 'unique', codes: 3, requireToken: true });
    const once = { nonce: 'n1', expiresAtMs: (await sale.nowMs()) + 60_000 };
    expect((await other.redeem('eve', 2, { ...cart, once })).kind).toBe('not_combinable');
    expect([await other.usedCodes(), await sale.redis.exists(keys.once(other.product, 'n1'))]).toEqual([[], 0]);
  });

  test('is refused beyond a hundred reservations, and accepted when some of them have ended', async () => {
    const campaign = await open('combines');
    const ids: string[] = [];
    for (let i = 0; i < 100; i += 1) ids.push(await campaign.use('fay', 0, cart));
    expect(await redeem(campaign, 'fay')).toBe('not_combinable');
    await campaign.release(String(ids[50]));
    expect(await redeem(campaign, 'fay')).toBe('reserved');
    expect(await redeem(campaign, 'fay')).toBe('not_combinable');
  });
});

describe('an order is free again', () => {
  const endings: [string, Partial<Campaign>, (campaign: TestCampaign, id: string) => Promise<unknown>][] = [
    ['a release', {}, (campaign, id) => campaign.release(id)],
    [
      'an expiry',
      {},
      async (campaign, id) => {
        await campaign.letDeadlinePass(id);
        await campaign.expire();
      },
    ],
    [
      'a refund that returns the unit',
      { refundPolicy: 'return' },
      async (campaign, id) => {
        await campaign.confirm(id);
        await campaign.refund(id);
      },
    ],
    [
      'a refund that burns the unit',
      { refundPolicy: 'burn' },
      async (campaign, id) => {
        await campaign.confirm(id);
        await campaign.refund(id);
      },
    ],
    ['a void', {}, (campaign, id) => campaign.void(id, 'returns')],
  ];
  test.each(endings)('after %s', async (what, terms, end) => {
    const user = `ann-${what.replaceAll(' ', '-')}`;
    const [first, other] = [await open('exclusive', terms), await open('exclusive')];
    const id = await first.use(user, 0, cart);
    expect(await redeem(other, user)).toBe('not_combinable');
    await end(first, id);
    expect(await redeem(other, user)).toBe('reserved');
    expect(await redeem(first, user)).toBe('not_combinable');
  });

  test('not by its deadline alone: the reservation ends when the sweep has come', async () => {
    const [first, other] = [await open('exclusive'), await open('exclusive')];
    await first.letDeadlinePass(await first.use('bea', 0, cart));
    expect(await redeem(other, 'bea')).toBe('not_combinable');
    await first.expire();
    expect(await redeem(other, 'bea')).toBe('reserved');
  });

  test('keeps the claims of those that have not ended, and the time until it is forgotten', async () => {
    const [one, two, three] = [await open('group:a'), await open('group:b'), await open('group:a')];
    const [id, kept] = [await one.use('cleo', 0, cart), await two.use('cleo', 0, cart)];
    expect(await sale.redis.get(orderOf('cleo'))).toBe(`${id}=group:a,${kept}=group:b`);
    await one.release(id);
    const next = await three.use('cleo', 0, cart);
    expect(await sale.redis.get(orderOf('cleo'))).toBe(`${id}=ended,${kept}=group:b,${next}=group:a`);
    const ttl = await sale.redis.pttl(orderOf('cleo'));
    expect(ttl > 590_000 && ttl <= 600_000).toBe(true);
  });

  test('keeps one that has ended on a full order, as a proof that the order has had others', async () => {
    const [one, two, three] = [await open('combines'), await open('group:a'), await open('combines')];
    const prefixed = (state: string) =>
      Array.from({ length: 100 }, (_, i) => `${String(i).padStart(8, '0')}-0000-7000-8000-00000000ffff=${state}`);
    await sale.redis.set(orderOf('fay'), prefixed('ended').join(','), 'PX', 600_000);
    const id = await one.use('fay', 0, cart);
    expect(await sale.redis.get(orderOf('fay'))).toBe(`${prefixed('ended')[0]},${id}=combines`);
    for (const campaign of [two, three]) expect(await redeem(campaign, 'fay')).toBe('reserved');
  });

  test('only of the claims that have ended when another one excludes the code, and is forgotten in its time', async () => {
    const [one, two, exclusive] = [await open('group:a'), await open('group:b'), await open('exclusive')];
    const [id, kept] = [await one.use('dora', 0, cart), await two.use('dora', 0, cart)];
    await one.release(id);
    expect(await redeem(exclusive, 'dora')).toBe('not_combinable');
    expect(await sale.redis.get(orderOf('dora'))).toBe(`${id}=ended,${kept}=group:b`);
    const ttl = await sale.redis.pttl(orderOf('dora'));
    expect(ttl > 0 && ttl <= 600_000).toBe(true);
  });
});

describe('a place in line', () => {
  const full = (stacking: string) => open(stacking, { totalLimit: 1 });
  async function openFull(stacking: string): Promise<{ campaign: TestCampaign; held: string }> {
    const campaign = await full(stacking);
    return { campaign, held: await campaign.take('holder') };
  }

  test('holds the order until the user leaves', async () => {
    const { campaign } = await openFull('exclusive');
    const other = await open('combines');
    expect(await redeem(campaign, 'gil')).toBe('queued');
    expect(await redeem(other, 'gil')).toBe('not_combinable');
    await campaign.leave('gil');
    expect(await redeem(other, 'gil')).toBe('reserved');
  });

  test('keeps the claim through the promotion, which no other claim on the order can block', async () => {
    const { campaign, held } = await openFull('exclusive');
    const other = await open('combines');
    await campaign.redeem('hal', 0, cart);
    await campaign.release(held);
    expect((await campaign.standing('hal')).kind === 'standing').toBe(true);
    expect(await campaign.standing('hal')).toMatchObject({ status: 'promoted', orderId: 'cart-1' });
    expect(await redeem(other, 'hal')).toBe('not_combinable');
  });

  test('frees it when the campaign is closed, archived, or its line ends', async () => {
    const { campaign } = await openFull('exclusive');
    await campaign.redeem('ira', 0, cart);
    await campaign.redeem('jo', 0, cart);
    await campaign.setStatus('close');
    const other = await open('combines');
    expect(await redeem(other, 'ira')).toBe('reserved');
    await sale.redis.unlink(keys.people(campaign.product));
    await campaign.pretendArchived();
    expect(await redeem(other, 'jo')).toBe('reserved');
    // As the archive leaves it, so that the audit has nothing to compare.
    await sale.redis.unlink(keys.reservations(campaign.product), keys.deadlines(campaign.product));
    await campaign.set({ held: 0, free: 1 });

    const spent = await open('exclusive', { totalLimit: 1, holdSeconds: 0 });
    await spent.take('buyer');
    await spent.redeem('kim', 0, cart);
    await spent.tend();
    await spent.tend({ settled: true });
    expect(await redeem(other, 'kim')).toBe('reserved');
  });

  test('that is asked for again keeps its own order', async () => {
    const { campaign } = await openFull('exclusive');
    await campaign.redeem('lea', 0, cart);
    expect((await campaign.redeem('lea', 0, { order: 'cart-2' })).kind).toBe('waiting');
    expect(await sale.redis.exists(orderOf('lea', 'cart-2'))).toBe(0);
  });
});

describe('an order that is made at checkout', () => {
  test('takes part where its campaign excludes others, and in a pool; else it costs nothing', async () => {
    const redeemed = async (terms: Partial<Campaign>, stacking = 'combines') => {
      const campaign = await open(stacking, terms);
      const id = await campaign.take('meg');
      const order = orderIdOf(id);
      return { kept: await sale.redis.exists(keys.order('meg' as UserId, order)), order };
    };
    const plain = await redeemed({});
    const pool = await redeemed({ type: 'pool', codes: 3 });
    const exclusive = await redeemed({}, 'exclusive');
    expect([plain.kept, pool.kept, exclusive.kept]).toEqual([0, 1, 1]);
    const other = await open('exclusive');
    expect(await redeem(other, 'meg', { order: plain.order })).toBe('reserved');
    expect(await redeem(other, 'meg', { order: pool.order })).toBe('not_combinable');
    expect(await redeem(await open('combines'), 'meg', { order: exclusive.order })).toBe('not_combinable');
    expect(await redeem(await open('combines'), 'meg', { order: pool.order })).toBe('reserved');
  });
});

describe('a payment that comes too late', () => {
  const reacquiring = () => open('exclusive', { latePayment: 'reacquire' });

  test('takes the unit again, and its order', async () => {
    const [campaign, other] = [await reacquiring(), await open('combines')];
    const id = await campaign.use('ned', 0, cart);
    await campaign.release(id);
    expect(await campaign.confirm(id)).toMatchObject({ kind: 'redeemed', reacquired: true });
    expect(await redeem(other, 'ned')).toBe('not_combinable');
  });

  test('takes nothing when another code is on the order by then', async () => {
    const [campaign, other] = [await reacquiring(), await open('combines')];
    const id = await campaign.use('ola', 0, cart);
    await campaign.letDeadlinePass(id);
    await campaign.expire();
    const next = await other.use('ola', 0, cart);
    expect(await campaign.confirm(id)).toMatchObject({ kind: 'ended', state: 'expired' });
    await other.release(next);
    expect(await campaign.confirm(id)).toMatchObject({ kind: 'redeemed', reacquired: true });
  });

  test('takes nothing when another late payment of the same call takes the order', async () => {
    const campaign = await reacquiring();
    const first = await campaign.use('sue', 0, cart);
    await campaign.release(first);
    const second = await campaign.use('sue', 0, cart);
    await campaign.release(second);
    // The order is forgotten, so that neither of them excludes the other one before the call.
    await sale.redis.unlink(orderOf('sue'));
    expect(await Promise.all([campaign.confirm(first), campaign.confirm(second)])).toMatchObject([
      { kind: 'redeemed', reacquired: true },
      { kind: 'ended', state: 'released' },
    ]);
  });

  test('needs no order for a plain checkout', async () => {
    const campaign = await open('combines', { latePayment: 'reacquire' });
    const id = await campaign.take('pia');
    await campaign.release(id);
    expect(await campaign.confirm(id)).toMatchObject({ kind: 'redeemed', reacquired: true });
    expect(await sale.redis.exists(keys.order('pia' as UserId, orderIdOf(id)))).toBe(0);
  });
});

test('says how it takes part in the journal, also of a place; a promotion says nothing', async () => {
  const campaign = await open('group:spring%20sale', { totalLimit: 1 });
  const held = await campaign.use('quin', 0, { order: 'cart-q' });
  await campaign.redeem('rex', 0, { order: 'cart-r' });
  await campaign.release(held);
  const entries = await campaign.lastEntries(4);
  expect(entries.map((entry) => ('stacking' in entry ? entry.stacking : undefined))).toEqual([
    'group:spring%20sale',
    'group:spring%20sale',
    undefined,
    null,
  ]);
});

test('every reply of the script that checks a claim has come in this file', async () => {
  const campaign = await open('exclusive');
  const order = orderOf('x');
  expect(order).toContain('x|cart-1');
  await campaign.store.orders.check(sale.unknownCampaign().product, 'r' as never, 'x' as UserId, 'o' as OrderId);
  await sale.withoutEpoch(async () => {
    const asked = campaign.store.orders.check(
      sale.unknownCampaign().product,
      'r' as never,
      'x' as UserId,
      'o' as OrderId,
    );
    await expect(asked).rejects.toThrow();
  });
  expect(sale.unmetReplies('check_order_claim')).toEqual([]);
});
