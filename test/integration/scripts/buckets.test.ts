import { describe, expect, it, test } from '@jest/globals';
import { bucketOfReservation, campaignOfNumber } from '../../../shared/domain/buckets.js';
import { type CampaignNo, campaignNoOf } from '../../../shared/domain/ids.js';
import { keys } from '../../../shared/redis/keys.js';
import type { DrawnPlace } from '../../../shared/sale/reserve-input.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';
import { until } from '../../harness/until.js';

/** The scripts of one bucket of a divided campaign: what it decides alone, and what its caller decides for all. */
const sale = await startSale();

const bucketsOf = ({ store }: TestCampaign) => store.buckets;
const checkout = (campaign: TestCampaign, user: string, place: DrawnPlace | null = null) =>
  campaign.checkout(user, { bucket: { buckets: 10, place } });
const place = (lineNo: number): DrawnPlace => ({ lineNo, position: lineNo, queueSize: lineNo + 1 });
const journalOf = async ({ terms }: TestCampaign) => (await sale.entries()).filter(({ no }) => no === terms.no);

async function take(campaign: TestCampaign, user: string): Promise<string> {
  const outcome = await checkout(campaign, user);
  if (outcome.kind !== 'reserved') throw new Error(`${user} got ${outcome.kind}`);
  return outcome.reservationId;
}

async function join(campaign: TestCampaign, user: string, lineNo: number): Promise<void> {
  expect((await checkout(campaign, user, place(lineNo))).kind).toBe('queued');
}

const stockOf = async ({ product }: TestCampaign) => {
  const stock = await sale.store.reader.stock(product);
  return stock && [stock.total, stock.free, stock.held, stock.waiting];
};

describe('reserve', () => {
  it('sells while the bucket has units, and asks for others when it has none', async () => {
    const campaign = await sale.openBucket();
    const reservation = await take(campaign, 'ann');
    // The id names the bucket, so that payments find its shard.
    expect([bucketOfReservation(reservation), campaignOfNumber(campaignNoOf(reservation))]).toEqual([
      3,
      campaign.terms.no,
    ]);
    await take(campaign, 'bob');
    expect(await checkout(campaign, 'cid')).toEqual({ kind: 'short' });
    const without = await sale.openBucket(
      { total: 0 },
      { waitingRoom: { enabled: false, maxSize: 1, presenceSeconds: null } },
    );
    expect(await checkout(without, 'cid')).toEqual({ kind: 'empty' });
  });

  it('serves no user directly once the bucket is sealed, and gives them the number that was drawn', async () => {
    const campaign = await sale.openBucket();
    await bucketsOf(campaign).seal(campaign.product);
    expect(await checkout(campaign, 'ann')).toEqual({ kind: 'draw', lineNo: null });
    expect(await checkout(campaign, 'ann', { lineNo: 70, position: 5, queueSize: 9 })).toMatchObject({
      kind: 'queued',
      lineNo: 70,
      position: 5,
      queueSize: 9,
    });
    expect(await checkout(campaign, 'ann')).toEqual({ kind: 'draw', lineNo: 70 });
    expect(await checkout(campaign, 'ann', { lineNo: null, position: 4, queueSize: 8 })).toMatchObject({
      kind: 'waiting',
      position: 4,
      queueSize: 8,
    });
    // The caller knew a place that has ended meanwhile.
    const ended = { lineNo: null, position: 4, queueSize: 8 };
    expect(await checkout(campaign, 'bob', ended)).toEqual({ kind: 'draw', lineNo: null });
    expect(await stockOf(campaign)).toEqual([2, 2, 0, 1]);
  });

  it('asks for the position of the place when the user joined with another number meanwhile', async () => {
    const campaign = await sale.openBucket({ sealed: true });
    await join(campaign, 'ann', 70);
    expect(await checkout(campaign, 'ann', { lineNo: 71, position: 2, queueSize: 2 })).toEqual({
      kind: 'draw',
      lineNo: 70,
    });
  });

  it('orders the line by the numbers, in whatever order they arrive', async () => {
    const campaign = await sale.openBucket({ sealed: true });
    for (const [user, lineNo] of [
      ['cid', 30],
      ['ann', 10],
      ['bob', 20],
    ] as const)
      await join(campaign, user, lineNo);
    const heads = await bucketsOf(campaign).heads(campaign.product, 2);
    expect(heads).toMatchObject({
      heads: [
        { lineNo: 10, qty: 1 },
        { lineNo: 20, qty: 1 },
      ],
      waiting: 3,
      free: 2,
    });
    expect(await sale.store.line.positions(campaign.product, ['bob' as never])).toMatchObject({ positions: [20] });
  });

  it('does not count a call twice that the caller repeats', async () => {
    const campaign = await sale.openBucket({ total: 0 });
    const device = { device: 'fp-1', bucket: { buckets: 10, place: null } };
    for (let i = 0; i < 30; i += 1) expect((await campaign.checkout('ann', device)).kind).toBe('short');
  });

  it('refuses a caller that does not know that the campaign is divided', async () => {
    const campaign = await sale.openBucket();
    expect((await campaign.checkout('ann')).kind).toBe('journal_full');
  });

  it.each([
    [20, 2],
    [13, 1],
    [14, 2],
    [3, 0],
  ])('keeps its share of the %d places in line', async (maxSize, share) => {
    const waitingRoom = { enabled: true, maxSize, presenceSeconds: null };
    const campaign = await sale.openBucket({ sealed: true }, { waitingRoom });
    for (let lineNo = 1; lineNo <= share; lineNo += 1) await join(campaign, `user-${lineNo}`, lineNo);
    expect((await checkout(campaign, 'late', place(90))).kind).toBe('line_full');
  });
});

describe('units that come back', () => {
  it('stay in a sealed bucket until a round promotes up to a number', async () => {
    const campaign = await sale.openBucket();
    const [first] = [await take(campaign, 'ann'), await take(campaign, 'bob')];
    await bucketsOf(campaign).seal(campaign.product);
    await join(campaign, 'cid', 5);
    await join(campaign, 'dee', 6);
    await campaign.release(first);
    await campaign.store.line.maintain(campaign.product, 10, 0, 0);
    expect(await campaign.store.line.promote(campaign.product, 10)).toEqual({ kind: 'promoted', count: 0 });
    expect(await campaign.store.line.promote(campaign.product, 10, 4)).toEqual({ kind: 'promoted', count: 0 });
    expect(await stockOf(campaign)).toEqual([2, 1, 1, 2]);
    expect(await campaign.store.line.promote(campaign.product, 10, 6)).toEqual({ kind: 'promoted', count: 1 });
    expect(await stockOf(campaign)).toEqual([2, 0, 2, 1]);
    expect((await campaign.confirm(first)).kind).toBe('ended');
  });

  it('do not go to a late payment while units belong to the line', async () => {
    const campaign = await sale.openBucket({}, { latePayment: 'reacquire' });
    const first = await take(campaign, 'ann');
    await campaign.release(first);
    expect(await campaign.confirm(first)).toMatchObject({ kind: 'redeemed', reacquired: true });
    const second = await take(campaign, 'bob');
    await campaign.release(second);
    await bucketsOf(campaign).seal(campaign.product);
    expect((await campaign.confirm(second)).kind).toBe('ended');
  });
});

describe('seal', () => {
  it('is journaled once', async () => {
    const campaign = await sale.openBucket();
    for (let i = 0; i < 3; i += 1)
      expect(await bucketsOf(campaign).seal(campaign.product)).toEqual({ kind: 'sealed', closed: 0 });
    expect(await journalOf(campaign)).toEqual([expect.objectContaining({ kind: 'sealed', bucket: 3 })]);
  });

  it('closes the line when no unit can come back, and lets users join again when one has', async () => {
    const campaign = await sale.openBucket({ total: 1 });
    const only = await take(campaign, 'ann');
    await bucketsOf(campaign).seal(campaign.product);
    await join(campaign, 'bob', 7);
    expect((await bucketsOf(campaign).seal(campaign.product, 'spent')).kind).toBe('sealed');
    expect(await stockOf(campaign)).toEqual([1, 0, 1, 1]);
    await campaign.confirm(only);
    expect(await bucketsOf(campaign).seal(campaign.product, 'spent')).toEqual({ kind: 'sealed', closed: 1 });
    expect((await checkout(campaign, 'cid')).kind).toBe('sold_out');
    expect(await campaign.standing('bob')).toMatchObject({ status: 'closed' });
    await bucketsOf(campaign).seal(campaign.product, 'obtainable');
    expect((await checkout(campaign, 'cid')).kind).toBe('draw');
    expect((await journalOf(campaign)).at(-1)).toMatchObject({ kind: 'line_closed', bucket: 3, upTo: 7 });
  });
});

describe('transfers', () => {
  it('move free units once, in the order of the bucket that gave them', async () => {
    const campaign = await sale.openBucket({ total: 5, movedOut: 8 });
    const { product } = campaign;
    expect(await bucketsOf(campaign).moveOut(product, 4, 2)).toEqual({ kind: 'moved', outNo: 9 });
    expect(await bucketsOf(campaign).moveOut(product, 5, 4)).toEqual({ kind: 'short', free: 3 });
    expect(await stockOf(campaign)).toEqual([3, 3, 0, 0]);
    for (let i = 0; i < 2; i += 1) await bucketsOf(campaign).moveIn(product, 7, 12, 4);
    await bucketsOf(campaign).moveIn(product, 7, 11, 9);
    await bucketsOf(campaign).moveIn(product, 6, 1, 1);
    expect(await stockOf(campaign)).toEqual([8, 8, 0, 0]);
    expect((await journalOf(campaign)).map(({ journalId: _id, atMs: _at, ...entry }) => entry)).toEqual([
      { kind: 'moved_out', no: campaign.terms.no, bucket: 3, to: 4, units: 2, out: 9, codes: [] },
      { kind: 'moved_in', no: campaign.terms.no, bucket: 3, from: 7, units: 4, out: 12 },
      { kind: 'moved_in', no: campaign.terms.no, bucket: 3, from: 6, units: 1, out: 1 },
    ]);
  });

  it('are remembered by the bucket that gave them, until they have arrived', async () => {
    const campaign = await sale.openBucket({ total: 100, movedOut: 2, gave: [[2, 5, 4]] });
    const { product } = campaign;
    const gave = async () => JSON.parse((await campaign.inRedis()).fields.gave ?? '');
    for (let i = 0; i < 63; i += 1) expect((await bucketsOf(campaign).moveOut(product, 4, 1)).kind).toBe('moved');
    expect(await bucketsOf(campaign).moveOut(product, 4, 1)).toEqual({ kind: 'full' });
    expect(await stockOf(campaign)).toEqual([37, 37, 0, 0]);
    expect(await bucketsOf(campaign).moveOut(product, 4, 3, 0, 63)).toEqual({ kind: 'moved', outNo: 66 });
    // The last one to bucket 5 stays, although it has arrived. The oldest of the others is dropped.
    const known = await gave();
    expect(known).toHaveLength(64);
    expect([known[0], known[1], known.at(-1)]).toEqual([
      [2, 5, 4],
      [4, 4, 1],
      [66, 4, 3],
    ]);
    expect(await bucketsOf(campaign).moveOut(product, 4, 1, 0, 66)).toEqual({ kind: 'moved', outNo: 67 });
    expect((await gave()).slice(0, 2)).toEqual([
      [2, 5, 4],
      [5, 4, 1],
    ]);
  });

  it('know after a refill what had arrived', async () => {
    const campaign = await sale.openBucket({ total: 5, arrived: { 7: 12 } });
    await bucketsOf(campaign).moveIn(campaign.product, 7, 12, 4);
    await bucketsOf(campaign).moveIn(campaign.product, 7, 13, 1);
    expect(await stockOf(campaign)).toEqual([6, 6, 0, 0]);
  });
});

describe('draw_numbers', () => {
  /** Waits until the clock of Redis shows another ms, as it does during every refill. */
  const nextMs = async () => {
    const nowMs = async () => {
      const [seconds, micros] = await sale.redis.time();
      return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    };
    const before = await nowMs();
    await until('a ms has passed', async () => (await nowMs()) > before);
  };

  it('never draws a number again, and goes on above the last one in a new history', async () => {
    const campaign = await sale.openBucket({ bucket: 0 });
    const drawn = await Promise.all(Array.from({ length: 50 }, () => bucketsOf(campaign).draw(campaign.product)));
    expect(new Set(drawn).size).toBe(50);
    const last = Math.max(...drawn);
    expect(await bucketsOf(campaign).draw(campaign.product)).toBe(last + 1);
    await nextMs();
    await sale.beginHistory();
    expect(await bucketsOf(campaign).draw(campaign.product)).toBeGreaterThan(last + 1);
  });

  it.each([
    ['', 0],
    [', also with a clock that is behind the known numbers', 9_000_000],
  ])('draws no number of an earlier refill again after another one%s', async (_, aheadMs) => {
    const campaign = await sale.openBucket({ bucket: 0 });
    const known = (await bucketsOf(campaign).draw(campaign.product)) + 100 * aheadMs;
    const refilled = async () => {
      await nextMs();
      await campaign.set({ last_line_no: known });
      await sale.redis.hdel(keys.campaign(campaign.product), 'numbered_by');
      return bucketsOf(campaign).draw(campaign.product);
    };
    const numbers = [known, await refilled(), await refilled(), await refilled()];
    expect(new Set(numbers).size).toBe(4);
    expect(Math.min(...numbers)).toBe(known);
    if (aheadMs > 0) expect(numbers[1]).toBeGreaterThan(known + 900_000);
    else expect(numbers).toEqual(numbers.toSorted((one, other) => one - other));
  });
});

describe('bucket_places', () => {
  it('returns the numbers of the first ranks, and of each so many later ones', async () => {
    const campaign = await sale.openBucket({ sealed: true });
    for (let lineNo = 1; lineNo <= 40; lineNo += 1) await join(campaign, `user-${lineNo}`, lineNo * 3);
    expect(await bucketsOf(campaign).places(campaign.product, 4, 16)).toEqual({
      kind: 'places',
      waiting: 40,
      lastLineNo: 120,
      numbers: [3, 6, 9, 12, 60, 108],
    });
  });
});

test('a campaign that is not divided has none of it, and neither has an unknown one', async () => {
  const whole = await sale.openCampaign();
  const unknown = sale.unknownCampaign({ no: 4_000 as CampaignNo });
  for (const [{ product }, kind] of [
    [whole, 'undivided'],
    [unknown, 'not_found'],
  ] as const) {
    expect((await sale.store.buckets.seal(product)).kind).toBe(kind);
    expect((await sale.store.buckets.moveOut(product, 1, 1)).kind).toBe(kind);
    expect((await sale.store.buckets.moveIn(product, 1, 1, 1)).kind).toBe(kind);
    expect((await sale.store.buckets.heads(product, 1)).kind).toBe(kind);
  }
  expect((await sale.store.buckets.places(unknown.product, 1, 16)).kind).toBe('not_found');
  await expect(sale.store.buckets.draw(unknown.product)).rejects.toThrow('lacks bucket 0');
});
