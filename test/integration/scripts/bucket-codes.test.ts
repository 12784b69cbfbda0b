import { expect, it } from '@jest/globals';
import type { BucketPart } from '../../../shared/domain/campaign.js';
import { CampaignRestore } from '../../../worker/recovery/campaign-restore.js';
import { RedisFill } from '../../../worker/recovery/redis-fill.js';
import type { TestCampaign } from '../../harness/campaign.js';
import { startSale } from '../../harness/sale.js';

/** The codes of one bucket of a pool. The bucket is number 3 of ten unless a test says otherwise. */
const sale = await startSale();
const BUCKETS = 10;

const openPool = (part: Partial<BucketPart> = {}) => sale.openBucket({ total: 9, ...part }, { type: 'pool' });
const addCodes = ({ product, store }: TestCampaign, codes: number, buckets = BUCKETS) =>
  store.campaigns.addCodes(product, codes, buckets);
const codesOf = async ({ product, store }: TestCampaign) => {
  const heads = await store.buckets.heads(product, 0);
  return heads.kind === 'heads' ? heads.codes : null;
};

/** @returns the number of the code */
async function take(campaign: TestCampaign, user: string): Promise<number | null> {
  const outcome = await campaign.checkout(user, { bucket: { buckets: BUCKETS, place: null } });
  if (outcome.kind !== 'reserved') throw new Error(`${user} got ${outcome.kind}`);
  return outcome.code;
}

/** Numbers from 1 to `codes` that the bucket cannot give. */
const foreign = (codes: number, bucket: number, buckets: number) =>
  Array.from({ length: codes }, (_, i) => i + 1).filter((code) => (code - 1) % buckets !== bucket);

it('gives its own codes only, and asks for others when they are used up', async () => {
  const campaign = await openPool();
  await addCodes(campaign, 35);
  expect(await codesOf(campaign)).toEqual({ unused: 4, own: 4, known: 35 });
  const taken = [];
  for (const user of ['ann', 'bob', 'cid', 'dan']) taken.push(await take(campaign, user));
  expect(taken).toEqual([4, 14, 24, 34]);
  expect((await campaign.checkout('eve', { bucket: { buckets: BUCKETS, place: null } })).kind).toBe('short');
  await addCodes(campaign, 44);
  expect(await codesOf(campaign)).toEqual({ unused: 1, own: 5, known: 44 });
  expect(await take(campaign, 'eve')).toBe(44);
});

it('marks the codes of other buckets, wherever the new codes begin and end', async () => {
  for (const [bucket, buckets] of [
    [0, 2],
    [3, 4],
    [3, 7],
    [15, 16],
  ] as const) {
    const campaign = await openPool({ bucket });
    for (const codes of [1, 5, 7, 8, 20, 64, 61, 300, 301, 5_000]) {
      await addCodes(campaign, codes, buckets);
      const known = Number((await campaign.inRedis()).fields.codes);
      expect(await campaign.usedCodes()).toEqual(foreign(known, bucket, buckets));
      expect((await codesOf(campaign))?.own).toBe(known - foreign(known, bucket, buckets).length);
    }
  }
});

it('moves the lowest unused codes out, with units or alone, and only as many as it has', async () => {
  const campaign = await openPool();
  const { product, store } = campaign;
  await addCodes(campaign, 50);
  expect(await take(campaign, 'ann')).toBe(4);
  expect(await store.buckets.moveOut(product, 5, 2, 1)).toEqual({ kind: 'moved', outNo: 1 });
  expect(await store.buckets.moveOut(product, 6, 0, 2)).toEqual({ kind: 'moved', outNo: 2 });
  expect(await store.buckets.moveOut(product, 6, 1, 2)).toEqual({ kind: 'short', free: 6 });
  expect(await campaign.lastEntries(2)).toMatchObject([
    { kind: 'moved_out', to: 5, units: 2, codes: [14] },
    { kind: 'moved_out', to: 6, units: 0, codes: [24, 34] },
  ]);
  expect(await codesOf(campaign)).toEqual({ unused: 1, own: 2, known: 50 });
  expect(await take(campaign, 'bob')).toBe(44);
});

it('gives codes that came from another bucket, once they have arrived', async () => {
  const campaign = await openPool();
  const { product, store } = campaign;
  await addCodes(campaign, 20);
  expect(await store.buckets.moveIn(product, 0, 1, 0, [21])).toEqual({ kind: 'unknown_codes', highest: 21 });
  for (const user of ['ann', 'bob']) await take(campaign, user);
  for (let i = 0; i < 2; i += 1) await store.buckets.moveIn(product, 0, 1, 0, [1, 11]);
  expect(await codesOf(campaign)).toEqual({ unused: 2, own: 4, known: 20 });
  expect([await take(campaign, 'cid'), await take(campaign, 'dan')]).toEqual([1, 11]);
});

it('gives a released code again, also one that came from another bucket', async () => {
  const campaign = await openPool();
  const { product, store } = campaign;
  await addCodes(campaign, 4);
  await store.buckets.moveIn(product, 0, 1, 0, [1]);
  const taken = await campaign.checkout('ann', { bucket: { buckets: BUCKETS, place: null } });
  expect(taken).toMatchObject({ kind: 'reserved', code: 1 });
  if (taken.kind === 'reserved') await campaign.release(taken.reservationId);
  expect(await codesOf(campaign)).toEqual({ unused: 2, own: 2, known: 4 });
  expect(await take(campaign, 'bob')).toBe(1);
});

it('is filled with the codes that are at home and those that moved', async () => {
  const campaign = await openPool();
  await sale.fill(async (token) => {
    const restore = new CampaignRestore(new RedisFill(sale.store.scripts), token, campaign.product);
    await restore.clear();
    await restore.ownCodes(3, BUCKETS, 45, { gained: [10, 33], given: [14, 24] });
    await restore.codes([4, 10]);
  });
  const all = Array.from({ length: 45 }, (_, i) => i + 1);
  const used = await campaign.usedCodes();
  expect(all.filter((code) => !used.includes(code))).toEqual([33, 34, 44]);
});
