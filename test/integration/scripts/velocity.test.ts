import { afterEach, describe, expect, test } from '@jest/globals';
import type { Campaign } from '../../../shared/domain/campaign.js';
import type { VelocityVerdict } from '../../../shared/domain/velocity.js';
import { keys } from '../../../shared/redis/keys.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** At the beginning of a second. */
const OPENING = Math.floor(Date.now() / SECOND) * SECOND;
/** After `opening_minutes`. */
const LATER = OPENING + 5 * MINUTE;

let users = 0;
const newUsers = (count: number) =>
  Array.from({ length: count }, () => {
    users += 1;
    return `user-${users}`;
  });

class Watched {
  readonly verdicts: VelocityVerdict[] = [];
  constructor(readonly campaign: TestCampaign) {}

  /** @returns how many of these users got a unit in one call at this time */
  async takeAt(ms: number, names: readonly string[]): Promise<number> {
    const campaign = this.campaign.at(ms);
    campaign.store.claims.onVelocity = (_product, verdict) => this.verdicts.push(verdict);
    const outcomes = await Promise.all(names.map((name) => campaign.checkout(name)));
    return outcomes.filter(({ kind }) => kind === 'reserved').length;
  }

  /** New users arrive evenly. @returns how many of them got a unit before the campaign was paused, and when it was */
  async arrive(fromMs: number, toMs: number, perSecond: number): Promise<{ taken: number; pausedMs: number | null }> {
    let taken = 0;
    const step = SECOND / perSecond;
    for (let ms = fromMs; ms < toMs; ms += step) {
      taken += await this.takeAt(Math.floor(ms), newUsers(1));
      if (this.verdicts.some(({ outcome }) => outcome === 'paused')) return { taken, pausedMs: ms - fromMs };
    }
    return { taken, pausedMs: null };
  }
}

async function open(rules: Record<string, unknown> = {}, terms: Partial<Campaign> = {}): Promise<Watched> {
  const campaign = await sale.openCampaign({
    totalLimit: 1_000,
    holdSeconds: 0,
    perUserLimit: 2,
    startsAt: new Date(OPENING),
    rules: { velocity: 'pause', ...rules },
    ...terms,
  });
  await sale.redis.hset(keys.campaign(campaign.product), 'counted_since', OPENING);
  return new Watched(campaign);
}

const paused = { outcome: 'paused', users: expect.any(Number), usual: expect.any(Number) };

describe('a leak after the opening', () => {
  test('that 32 users a second follow is paused within three seconds, with over 800 of 1,000 units left', async () => {
    const watched = await open();
    for (let i = 0; i < 10; i += 1) await watched.takeAt(OPENING + 30 * i * SECOND, newUsers(1));
    const { taken, pausedMs } = await watched.arrive(LATER, LATER + 10 * SECOND, 32);
    expect(pausedMs).toBeLessThan(3 * SECOND);
    expect(taken).toBeLessThan(150);
    expect(watched.verdicts).toEqual([paused]);
    expect(await watched.campaign.stock()).toMatchObject({ status: 'paused', redeemed: 10 + taken });
    expect(await watched.campaign.checkout('one more')).toEqual({ kind: 'paused' });
  });

  test('at the full speed of Redis keeps more than half of the units', async () => {
    const watched = await open();
    for (let i = 0; i < 4; i += 1) await watched.takeAt(LATER, newUsers(64));
    expect(await watched.campaign.stock()).toMatchObject({ status: 'paused', redeemed: 64 });
    expect(watched.verdicts).toEqual([{ outcome: 'paused', users: 64, usual: 0 }]);
  });

  test('is journaled after the promises of its call, with what decided', async () => {
    const watched = await open();
    await watched.takeAt(LATER, newUsers(51));
    const entries = await watched.campaign.lastEntries(2);
    expect(entries).toMatchObject([
      { kind: 'reserved' },
      {
        kind: 'status',
        action: 'pause',
        before: 'open',
        status: 'paused',
        actor: 'velocity',
        reason: '51 users got their first promise within 5 seconds; 0.0 are usual',
      },
    ]);
  });

  test('needs more users where more are usual, or where there are more units', async () => {
    const busy = await open();
    // Two users in each five seconds are usual.
    for (let second = 0; second < 300; second += 5) await busy.takeAt(OPENING + second * SECOND, newUsers(2));
    for (const count of [64, 64]) await busy.takeAt(LATER + 10 * SECOND, newUsers(count));
    expect(busy.verdicts).toEqual([]);
    for (const count of [64, 20]) await busy.takeAt(LATER + 11 * SECOND, newUsers(count));
    expect(busy.verdicts).toEqual([paused]);
    expect(busy.verdicts[0]?.usual).toBeCloseTo(2, 0);

    const large = await open({}, { totalLimit: 2_000 });
    for (const count of [64, 36]) await large.takeAt(LATER, newUsers(count));
    expect(large.verdicts).toEqual([]);
    await large.takeAt(LATER, newUsers(1));
    expect(large.verdicts).toEqual([paused]);
  });

  test('counts the users of five seconds, and forgets them then', async () => {
    const watched = await open({}, { totalLimit: 1_000 });
    await watched.takeAt(LATER, newUsers(50));
    await watched.takeAt(LATER + 5 * SECOND, newUsers(1));
    expect(watched.verdicts).toEqual([]);
    // The 50 are a part of what is usual now.
    for (const count of [64, 16]) await watched.takeAt(LATER + 9 * SECOND, newUsers(count));
    expect(watched.verdicts).toEqual([]);
    await watched.takeAt(LATER + 9 * SECOND, newUsers(4));
    expect(watched.verdicts).toEqual([{ outcome: 'paused', users: 85, usual: expect.any(Number) }]);
  });
});

describe('what is no leak', () => {
  test('a popular opening: it only alerts, once a minute', async () => {
    const watched = await open();
    for (let i = 0; i < 5; i += 1) await watched.takeAt(OPENING + SECOND * i, newUsers(60));
    expect(watched.verdicts).toEqual([{ outcome: 'alerted', users: 60, usual: 0 }]);
    expect(await watched.campaign.stock()).toMatchObject({ status: 'open', redeemed: 300 });
  });

  test('the last second of the opening, and not the one after it', async () => {
    const watched = await open();
    await watched.takeAt(OPENING + 2 * MINUTE - 1, newUsers(60));
    expect(await watched.campaign.stock()).toMatchObject({ status: 'open' });
    await watched.takeAt(OPENING + 2 * MINUTE, newUsers(1));
    expect(await watched.campaign.stock()).toMatchObject({ status: 'paused' });
  });

  test('other opening minutes, a restock, and an hour after a resume', async () => {
    const slow = await open({ opening_minutes: 10 });
    await slow.takeAt(LATER, newUsers(60));
    expect(await slow.campaign.stock()).toMatchObject({ status: 'open' });

    const restocked = await open();
    await restocked.campaign.at(LATER).restock(10);
    await restocked.takeAt(LATER + MINUTE, newUsers(60));
    expect(await restocked.campaign.stock()).toMatchObject({ status: 'open' });
    for (const count of [64, 36]) await restocked.takeAt(LATER + 2 * MINUTE, newUsers(count));
    expect(await restocked.campaign.stock()).toMatchObject({ status: 'paused' });

    await restocked.campaign.at(LATER + 3 * MINUTE).setStatus('resume');
    await restocked.takeAt(LATER + 4 * MINUTE, newUsers(60));
    expect(await restocked.campaign.stock()).toMatchObject({ status: 'open' });
    await restocked.takeAt(LATER + 63 * MINUTE, newUsers(60));
    expect(await restocked.campaign.stock()).toMatchObject({ status: 'paused' });
  });

  test('an hour after a resume, also when a restock in it would be calm for a shorter time', async () => {
    const watched = await open();
    await watched.campaign.at(LATER).setStatus('pause');
    await watched.campaign.at(LATER).setStatus('resume');
    await watched.campaign.at(LATER + MINUTE).restock(10);
    await watched.takeAt(LATER + 30 * MINUTE, newUsers(60));
    expect(await watched.campaign.stock()).toMatchObject({ status: 'open' });
  });

  test('users who waited for the units of a sold-out sale, which come back together', async () => {
    const terms = { totalLimit: 200, holdSeconds: 60, maxQty: 200 };
    const [soldOut, notSoldOut] = [await open({}, terms), await open({}, terms)];
    await soldOut.campaign.at(OPENING).take('buyer', { qty: 200 });
    await notSoldOut.campaign.at(OPENING).take('buyer', { qty: 199 });
    for (const [watched, status] of [[soldOut, 'open'] as const, [notSoldOut, 'paused'] as const]) {
      await watched.campaign.at(LATER).expire();
      await watched.takeAt(LATER + SECOND, newUsers(60));
      expect(await watched.campaign.stock()).toMatchObject({ status });
    }
    for (const count of [64, 16]) await soldOut.takeAt(LATER + 2 * MINUTE, newUsers(count));
    expect(await soldOut.campaign.stock()).toMatchObject({ status: 'paused' });
  });

  test('an opening that is moved to now, and the first users after the watch is turned on', async () => {
    const moved = await open({}, { status: 'scheduled', startsAt: new Date(LATER + 60 * MINUTE) });
    await moved.campaign.at(LATER).amend({ startsAt: new Date(OPENING) });
    await moved.campaign.at(LATER).setStatus('start');
    const turnedOn = await open({ velocity: 'off' });
    await turnedOn.campaign.at(LATER).amend({ rules: { velocity: 'pause' } });
    for (const watched of [moved, turnedOn]) {
      await watched.takeAt(LATER + SECOND, newUsers(60));
      expect(await watched.campaign.stock()).toMatchObject({ status: 'open', held: 0, redeemed: 60 });
    }
  });

  test('one user who claims again and again, refusals and repetitions', async () => {
    const watched = await open({}, { waitingRoom: { enabled: true, maxSize: 100, presenceSeconds: null } });
    const [user = ''] = newUsers(1);
    for (let i = 0; i < 60; i += 1) {
      const campaign = watched.campaign.at(LATER + i);
      campaign.store.claims.onVelocity = (_product, verdict) => watched.verdicts.push(verdict);
      const reservation = await watched.campaign.at(LATER + i).checkout(user, { key: `key-${i}` });
      if (i < 2) expect(reservation.kind).toBe('reserved');
      else expect(reservation.kind).toBe('limit_reached');
      await campaign.checkout(user, { key: 'key-0' });
    }
    expect(watched.verdicts).toEqual([]);
    expect(await sale.redis.hget(keys.campaign(watched.campaign.product), 'rate')).toMatch(/^\d+\|1\|0\|0\|0\|0\|\d+$/);
  });

  test.each(['alert', 'off'])('with velocity %s nothing is paused', async (velocity) => {
    const watched = await open({ velocity });
    for (let i = 0; i < 3; i += 1) await watched.takeAt(LATER, newUsers(60));
    expect(watched.verdicts.map(({ outcome }) => outcome)).toEqual(velocity === 'alert' ? ['alerted'] : []);
    expect(await watched.campaign.stock()).toMatchObject({ status: 'open', redeemed: 180 });
  });
});

test('a clock that goes back by some seconds forgets nothing, and by hours begins again', async () => {
  const watched = await open();
  await watched.takeAt(LATER + 4 * SECOND, newUsers(50));
  await watched.takeAt(LATER + 60 * MINUTE, newUsers(25));
  await watched.takeAt(LATER + 60 * MINUTE - 2 * SECOND, newUsers(25));
  expect(watched.verdicts).toEqual([]);
  await watched.takeAt(LATER, newUsers(50));
  expect(watched.verdicts).toEqual([]);
  await watched.takeAt(LATER - 4 * SECOND, newUsers(40));
  expect(watched.verdicts).toEqual([paused]);
});

test('a bucket may have twice its share of the 50 users, and at least 20', async () => {
  const startsAt = new Date(OPENING);
  const bucket = await sale.openBucket({ total: 100 }, { startsAt, holdSeconds: 0, rules: { velocity: 'pause' } });
  await sale.redis.hset(keys.campaign(bucket.product), 'counted_since', OPENING);
  const takeAll = (names: readonly string[]) =>
    Promise.all(names.map((name) => bucket.at(LATER).checkout(name, { bucket: { buckets: 10, place: null } })));
  await takeAll(newUsers(20));
  expect(await bucket.stock()).toMatchObject({ status: 'open', redeemed: 20 });
  await takeAll(newUsers(1));
  expect(await bucket.stock()).toMatchObject({ status: 'paused', redeemed: 21 });
});

test('an unlimited campaign is watched if its operator wants it', async () => {
  const watched = await open({}, { totalLimit: null });
  await watched.takeAt(LATER, newUsers(51));
  expect(watched.verdicts).toEqual([paused]);
});
