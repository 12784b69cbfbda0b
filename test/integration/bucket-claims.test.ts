import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { BucketClaims } from '../../shared/buckets/bucket-claims.js';
import { Places } from '../../shared/buckets/places.js';
import type { CampaignId, ReservationId, UserId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import { Sales } from '../../shared/sale/sales.js';
import { type DividedCampaign, DividedSale } from '../harness/divided-sale.js';

/** What an API process decides for all buckets of a campaign, with real scripts and real Postgres. */
const sale = await DividedSale.start();

/** Users by the bucket that decides about them. */
function usersOf({ product }: DividedCampaign, bucket: number, count: number): string[] {
  const users: string[] = [];
  for (let i = 0; users.length < count; i += 1)
    if (sale.map.bucketOf(product, `user-${i}` as UserId) === bucket) users.push(`user-${i}`);
  return users;
}

const leave = (campaign: DividedCampaign, user: string) =>
  campaign.storeOfUser(user).line.leave(campaign.product, user as UserId, null, '');

/** Another API process, which cannot use one bucket. */
function processWithout(campaign: DividedCampaign, away: number): BucketClaims {
  const stores = sale.shards.map(({ index, store }) => {
    if (index !== sale.map.shardOf(campaign.product, away)) return store;
    const buckets = new Proxy(store.buckets, {
      get: () => () => Promise.reject(new EngineUnavailable('redis', 'the bucket is away')),
    });
    return Object.assign(Object.create(store) as SaleStore, { buckets });
  });
  const sales = new Sales(stores, sale.map);
  return new BucketClaims(sales, new Places(sales, LIMITS), sale.transfersOf(sales, sale.table), LIMITS);
}

// So long that no busy machine reaches it.
const LIMITS = { placesFreshMs: 0, claimMs: 60_000 };
/** Joins the line as its first user. @returns the line number, with which the next ones continue */
async function joinFirst(campaign: DividedCampaign, user: string): Promise<number> {
  const place = await campaign.checkout(user);
  if (place.kind !== 'queued') throw new Error(`the first user of the line got ${place.kind}`);
  expect(place.position).toBe(1);
  return Number(place.lineNo);
}

describe('a checkout of a waiting user', () => {
  it('keeps the place', async () => {
    const campaign = await sale.open(0, true);
    const first = await joinFirst(campaign, 'ann');
    expect(await campaign.checkout('bob')).toMatchObject({ kind: 'queued', lineNo: first + 1, position: 2 });
    expect(await campaign.checkout('bob')).toMatchObject({ kind: 'waiting', position: 2 });
    expect((await campaign.waiting()).sort()).toEqual([first, first + 1]);
  });

  it('gets one place and its position when it is sent several times at once under several keys', async () => {
    const campaign = await sale.open(0, true);
    const first = await joinFirst(campaign, 'ann');
    const claims = Array.from({ length: 6 }, () => campaign.claimOf('bob'));
    let isFirst = true;
    const places = new Places(sale.sales, LIMITS);
    const at = places.at.bind(places);
    // The first number that is drawn is used last.
    places.at = async (...args) => {
      const waits = isFirst;
      isFirst = false;
      if (waits) await sleep(50);
      return at(...args);
    };
    const decided = new BucketClaims(sale.sales, places, sale.transfersOf(sale.sales, sale.table), LIMITS);
    const outcomes = await Promise.all(claims.map((claim) => decided.decide(claim, { kind: 'draw', lineNo: null })));
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['queued', ...Array(5).fill('waiting')]);
    for (const outcome of outcomes) expect(outcome).toMatchObject({ position: 2 });
    expect(await campaign.waiting()).toHaveLength(2);
    expect(Math.min(...(await campaign.waiting()))).toBe(first);
    for (const claim of claims) expect(await campaign.claim(claim)).toMatchObject({ kind: 'replayed' });
  });

  it('joins at the end when the user leaves the line meanwhile', async () => {
    const campaign = await sale.open(0, true);
    const first = await joinFirst(campaign, 'ann');
    await campaign.checkout('bob');
    const again = await campaign.checkout('ann', () => leave(campaign, 'ann'));
    expect(again).toMatchObject({ kind: 'queued', lineNo: first + 2, position: 2 });
    expect((await campaign.waiting()).sort()).toEqual([first + 1, first + 2]);
  });

  it('joins at the end when the user is promoted meanwhile and may have another unit', async () => {
    const campaign = await sale.open(4, true, { perUserLimit: 2 });
    const [holder, ann, bob] = usersOf(campaign, 2, 3) as [string, string, string];
    expect(await campaign.checkout(holder)).toMatchObject({ kind: 'reserved' });
    const first = await joinFirst(campaign, ann);
    expect(await campaign.checkout(bob)).toMatchObject({ kind: 'queued', lineNo: first + 1 });
    const { line, reservations } = campaign.storeOf(2);
    const again = await campaign.checkout(ann, async () => {
      const [held] = await campaign.reservations();
      await reservations.release(campaign.product, held?.id as ReservationId, null, '', { actor: '', trace: '' });
      expect(await line.promote(campaign.product, 10, first)).toEqual({ kind: 'promoted', count: 1 });
    });
    expect(again).toMatchObject({ kind: 'queued', lineNo: first + 2, position: 2 });
  });
});

describe('a bucket that runs out', () => {
  it('leaves the others open while one is away, and seals all when it is back', async () => {
    const campaign = await sale.open(8, true);
    const { product } = campaign;
    const [first, second, late] = usersOf(campaign, 1, 3) as [string, string, string];
    for (const user of [first, second]) expect((await campaign.checkout(user)).kind).toBe('reserved');
    const claim = campaign.claimOf(late);
    const short = await campaign.storeOfUser(late).claims.reserve(claim);
    expect(short).toEqual({ kind: 'short' });
    await expect(processWithout(campaign, 3).decide(claim, short)).rejects.toThrow('the bucket is away');
    const [other] = usersOf(campaign, 2, 1) as [string];
    expect((await campaign.checkout(other)).kind).toBe('reserved');
    expect((await campaign.checkout(late)).kind).toBe('queued');
    for (const { buckets } of sale.sales.all(product))
      expect(await buckets.heads(product, 0)).toMatchObject({ stage: 'sealed' });
  });
});

describe('a bucket without units and without a line', () => {
  it('takes no units from another one while Postgres is away', async () => {
    const campaign = await sale.open(80, false);
    const { product, stored } = campaign;
    for (const user of usersOf(campaign, 1, 20)) expect((await campaign.checkout(user)).kind).toBe('reserved');
    const late = usersOf(campaign, 1, 21).at(-1) as string;
    const unreachable = () => Promise.reject(new EngineUnavailable('postgres', 'it is away'));
    const table = new Proxy(sale.table, { get: () => unreachable });
    const claims = new BucketClaims(
      sale.sales,
      new Places(sale.sales, LIMITS),
      sale.transfersOf(sale.sales, table),
      LIMITS,
    );
    for (let tries = 0; tries < 3; tries += 1) {
      const claim = campaign.claimOf(late);
      const empty = await campaign.storeOfUser(late).claims.reserve(claim);
      expect(empty).toEqual({ kind: 'empty' });
      await expect(claims.decide(claim, empty)).rejects.toThrow('it is away');
    }
    expect(await sale.sales.stock(product)).toMatchObject({ total: 80, free: 60 });
    expect((await campaign.checkout(late)).kind).toBe('reserved');
    await sale.persistAll();
    expect((await sale.table.inTransit(stored.id)).transfers).toEqual([]);
  });
});

describe('a sold-out campaign without a line', () => {
  it('gives a unit that has come back to the next claim of any bucket', async () => {
    const campaign = await sale.open(4, false);
    for (const bucket of [0, 1, 2, 3]) {
      const [user] = usersOf(campaign, bucket, 1) as [string];
      expect((await campaign.checkout(user)).kind).toBe('reserved');
    }
    for (const bucket of [1, 2]) {
      const [, late] = usersOf(campaign, bucket, 2) as [string, string];
      expect((await campaign.checkout(late)).kind).toBe('sold_out');
    }
    expect(await campaign.storeOf(0).campaigns.restock(campaign.product, 1, 10, null, 'ops', '')).toMatchObject({
      kind: 'restocked',
    });
    const [, late] = usersOf(campaign, 1, 2) as [string, string];
    expect((await campaign.checkout(late)).kind).toBe('reserved');
    await sale.persistAll();
  });

  it('does not read all buckets for each of a flood of claims', async () => {
    const campaign = await sale.open(0, false);
    let reads = 0;
    const stores = sale.shards.map(({ store }) => {
      const buckets = Object.assign(Object.create(store.buckets) as typeof store.buckets, {
        heads: (...args: Parameters<typeof store.buckets.heads>) => {
          reads += 1;
          return store.buckets.heads(...args);
        },
      });
      return Object.assign(Object.create(store) as SaleStore, { buckets });
    });
    const sales = new Sales(stores, sale.map);
    let queries = 0;
    const table = Object.assign(Object.create(sale.table) as CampaignBuckets, {
      inTransit: (id: CampaignId) => {
        queries += 1;
        return sale.table.inTransit(id);
      },
    });
    const claims = new BucketClaims(sales, new Places(sales, LIMITS), sale.transfersOf(sales, table), LIMITS);
    const begun = performance.now();
    const claimed = Array.from({ length: 2_000 }, async (_, i) => {
      await sleep(i / 10);
      return claims.decide(campaign.claimOf(`user-${i}`), { kind: 'empty' });
    });
    for (const outcome of await Promise.all(claimed)) expect(outcome).toEqual({ kind: 'sold_out' });
    const looks = reads / 4;
    expect(looks).toBeGreaterThan(1);
    expect(looks).toBeLessThan(3 + (performance.now() - begun) / 20);
    expect(queries).toBeLessThanOrEqual(looks);
  });
});

describe('a late payment', () => {
  const by = { actor: 'shop', trace: '' };
  /** The user's reservation has ended, and another user of the bucket has got the last unit of it. */
  async function tooLate(others: Parameters<typeof sale.open>[2], line = false) {
    const campaign = await sale.open(8, line, { latePayment: 'reacquire', ...others });
    const [late, next, last] = usersOf(campaign, 1, 3) as [string, string, string];
    const held = await campaign.checkout(late);
    if (held.kind !== 'reserved') throw new Error(`the user got ${held.kind}`);
    const { reservations } = campaign.storeOf(1);
    await reservations.release(campaign.product, held.reservationId, null, '', by);
    for (const user of [next, last]) expect((await campaign.checkout(user)).kind).toBe('reserved');
    const pay = () => reservations.confirm(campaign.product, held.reservationId, 'pay-1', by);
    return { campaign, pay };
  }

  it.each([false, true])('gets a unit of another bucket while no user waits (waiting room: %s)', async (line) => {
    const { campaign, pay } = await tooLate({}, line);
    expect(await pay()).toMatchObject({ kind: 'redeemed', reacquired: true });
    expect(await pay()).toMatchObject({ kind: 'redeemed', reacquired: true });
    await sale.persistAll();
    expect(await sale.sales.stock(campaign.product)).toMatchObject({ total: 8, free: 5, held: 2, redeemed: 1 });
    expect((await sale.table.inTransit(campaign.stored.id)).transfers).toEqual([]);
  });

  it('is refused when no bucket has a unit, when the campaign reacquires none, and when it is closed', async () => {
    const { campaign, pay } = await tooLate({});
    for (let i = 0; i < 6; i += 1) {
      const [user] = usersOf(campaign, i % 4, 20).slice(10 + i) as [string];
      await campaign.checkout(user);
    }
    expect(await sale.sales.stock(campaign.product)).toMatchObject({ free: 0 });
    expect(await pay()).toMatchObject({ kind: 'ended', state: 'released' });
    const refusing = await tooLate({ latePayment: 'refuse' });
    expect(await refusing.pay()).toMatchObject({ kind: 'ended', state: 'released' });
    const closed = await tooLate({});
    for (const { campaigns } of sale.sales.all(closed.campaign.product))
      await campaigns.setStatus(closed.campaign.product, 'close', 'ops', '');
    expect(await closed.pay()).toMatchObject({ kind: 'ended', state: 'released' });
    await sale.persistAll();
  });

  it('is refused once the buckets are sealed', async () => {
    const { campaign, pay } = await tooLate({}, true);
    await Promise.all(sale.sales.all(campaign.product).map(({ buckets }) => buckets.seal(campaign.product)));
    expect(await pay()).toMatchObject({ kind: 'ended', state: 'released' });
    expect(await sale.sales.stock(campaign.product)).toMatchObject({ free: 6 });
    await sale.persistAll();
  });
});

describe('a bucket whose units do not arrive', () => {
  it('is given up after a time, and a retry gets a unit when they have arrived', async () => {
    const campaign = await sale.open(80, false);
    const { product, stored } = campaign;
    for (const user of usersOf(campaign, 1, 20)) expect((await campaign.checkout(user)).kind).toBe('reserved');
    const late = usersOf(campaign, 1, 21).at(-1) as string;
    // Postgres gets no entries, so no unit arrives.
    const claims = new BucketClaims(
      sale.sales,
      new Places(sale.sales, LIMITS),
      sale.transfersOf(sale.sales, sale.table),
      { claimMs: 100 },
    );
    const claim = campaign.claimOf(late);
    await expect(claims.decide(claim, { kind: 'empty' })).rejects.toThrow('are still on their way');
    expect(await sale.sales.stock(product)).toMatchObject({ held: 20 });
    expect((await campaign.checkout(late)).kind).toBe('reserved');
    await sale.persistAll();
    expect((await sale.table.inTransit(stored.id)).transfers).toEqual([]);
  });
});

describe('a pool without a line', () => {
  it('is not sold out while codes are on their way, and gives them where the units are', async () => {
    const campaign = await sale.open(4, false, { type: 'pool' });
    const { product, stored } = campaign;
    await sale.issueCodes(stored, 1);
    for (const bucket of [0, 1, 2, 3]) await sale.learnCodes(stored, bucket);
    expect(await campaign.storeOf(0).buckets.moveOut(product, 2, 0, 1)).toEqual({ kind: 'moved', outNo: 1 });
    // Postgres learns that the code left only after the first look for transfers.
    const table = Object.assign(Object.create(sale.table) as CampaignBuckets, {
      inTransit: async (id: string) => {
        const found = await sale.table.inTransit(id);
        await sale.persistAll();
        return found;
      },
      countLeft: async (...args: Parameters<CampaignBuckets['countLeft']>) => {
        await sale.persistAll();
        return sale.table.countLeft(...args);
      },
    });
    const claims = new BucketClaims(
      sale.sales,
      new Places(sale.sales, LIMITS),
      sale.transfersOf(sale.sales, table),
      LIMITS,
    );
    const [user] = usersOf(campaign, 1, 1) as [string];
    const claim = campaign.claimOf(user);
    const empty = await campaign.storeOfUser(user).claims.reserve(claim);
    expect(empty).toEqual({ kind: 'empty' });
    expect(await claims.decide(claim, empty)).toMatchObject({ kind: 'reserved', code: 1 });
    const [late] = usersOf(campaign, 2, 1) as [string];
    expect((await campaign.checkout(late)).kind).toBe('sold_out');
    await sale.persistAll();
    expect((await sale.table.inTransit(stored.id)).transfers).toEqual([]);
  });
});
