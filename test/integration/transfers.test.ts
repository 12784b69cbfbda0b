import { expect, it } from '@jest/globals';
import type { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import { keys } from '../../shared/redis/keys.js';
import { DividedSale } from '../harness/divided-sale.js';

/** What a bucket remembers of the transfers that it gave. */
const sale = await DividedSale.start();

it('looks in Postgres which transfers have arrived when a bucket can remember no more', async () => {
  const campaign = await sale.open(400, false);
  const { product, stored } = campaign;
  const giver = campaign.storeOf(0).buckets;
  const committing = Object.assign(Object.create(sale.table) as CampaignBuckets, {
    countLeft: async (...args: Parameters<CampaignBuckets['countLeft']>) => {
      await sale.persistAll();
      return sale.table.countLeft(...args);
    },
  });
  const transfers = sale.transfersOf(sale.sales, committing);
  const move = (to: number) => transfers.move(product, stored.id, [{ from: 0, to, units: 1, codes: 0 }]);
  await move(2);
  while ((await giver.moveOut(product, 1, 1)).kind === 'moved');
  // None is in Postgres, so each of them may be on its way.
  await move(1);
  const ofBucket = async (bucket: number) => (await campaign.storeOf(bucket).reader.stock(product))?.total;
  expect(await ofBucket(0)).toBe(100 - 64);
  await sale.persistAll();
  await transfers.arrive(product, stored.id);
  await sale.persistAll();
  await move(1);
  expect([await ofBucket(0), await ofBucket(1), await ofBucket(2)]).toEqual([35, 164, 101]);
  const home = sale.shards[sale.map.shardOf(product, 0)];
  if (!home) throw new Error('the campaign has no shard');
  const known = async () => JSON.parse((await home.redis.hget(keys.campaign(product), 'gave')) ?? '');
  const remembered = await known();
  expect(remembered).toHaveLength(64);
  expect([remembered[0], remembered[1], remembered.at(-1)]).toEqual([
    [1, 2, 1],
    [3, 1, 1],
    [65, 1, 1],
  ]);
  await home.redis.del(keys.campaign(product));
  await sale.refill(home.index, stored);
  expect(await known()).toEqual([
    [1, 2, 1, null],
    [65, 1, 1, null],
  ]);
  await sale.sql.query(
    `with on_its_way as (update stock_transfers set moved_in_at = null where out_no = 64 returning campaign_id, to_bucket)
     update campaign_buckets b set total = total - 1 from on_its_way t
     where b.campaign_id = t.campaign_id and b.bucket = t.to_bucket`,
  );
  expect(await sale.table.arrivedUpTo(stored.id, 0)).toBe(63);
  expect((await sale.table.part(stored.id, 0)).part.gave).toEqual([
    [1, 2, 1, null],
    [64, 1, 1, null],
    [65, 1, 1, null],
  ]);
});

it('compares a campaign whose units are on their way, wherever the journals of its buckets are', async () => {
  const campaign = await sale.open(40, true);
  const { product } = campaign;
  const [giver, taker] = [campaign.storeOf(0), campaign.storeOf(1)];
  const shardOf = (bucket: number) => sale.map.shardOf(product, bucket);
  const expectClean = async () => expect(await campaign.ledger()).toMatchObject({ lost: 0, drift: 0, differences: [] });
  expect(await giver.buckets.moveOut(product, 1, 3)).toMatchObject({ kind: 'moved', outNo: 1 });
  await taker.campaigns.restock(product, 2, 10, null, 'operator', '');
  await expectClean();
  await sale.persist(shardOf(0));
  await expectClean();
  await taker.buckets.moveIn(product, 0, 1, 3);
  await giver.buckets.seal(product);
  await giver.campaigns.setStatus(product, 'close', 'operator', '');
  await expectClean();
  // Bucket 0 ends the campaign in Postgres. The others end a moment later.
  await sale.persist(shardOf(0));
  await expectClean();
  await sale.persistAll();
  await expectClean();
});
