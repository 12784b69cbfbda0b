import { shardOfBucket } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import type { CommandShards } from '../command-shards.js';

type Found = { shard: number; bucket: number };

/**
 * Finds the divided campaigns in Redis, and adds those that Postgres lacks to the map of the shards.
 * @returns the shards that have buckets; they are repaired together
 * @throws Error when a bucket of a campaign that Postgres lacks is missing
 */
export async function findDivided(shards: CommandShards): Promise<number[]> {
  if (shards.map.count === 1) return [];
  const found = new Map<ProductId, Found[]>();
  for (let shard = 0; shard < shards.map.count; shard += 1) {
    const copy = new SaleCopy((await shards.open(shard)).redis);
    for (const [, product] of await copy.directory()) {
      const campaign = await copy.campaign(product);
      if (!campaign?.part) continue;
      const { bucket } = campaign.part;
      found.set(product, [...(found.get(product) ?? []), { shard, bucket }]);
      if (bucket > 0 || shards.map.dividedId(product) !== null) continue;
      shards.map.addDivided(product, shard, { id: campaign.details.id, buckets: 1 });
    }
  }
  for (const [product, buckets] of found) complete(shards, product, buckets);
  return [...new Set([...found.values()].flat().map(({ shard }) => shard))].sort((a, b) => a - b);
}

/** Sets the number of buckets of a campaign that Postgres lacks: all of them are in Redis. */
function complete({ map }: CommandShards, product: ProductId, buckets: readonly Found[]): void {
  if (map.bucketsOf(product) > 1) return;
  const id = map.dividedId(product);
  const home = buckets.find(({ bucket }) => bucket === 0)?.shard;
  const count = buckets.length;
  const isWhole =
    id !== null &&
    home !== undefined &&
    buckets.every(({ shard, bucket }) => bucket < count && shardOfBucket(home, bucket, count, map.count) === shard);
  if (!isWhole) throw new Error(`${product} is not in Postgres, and Redis does not have all of its buckets`);
  map.addDivided(product, home, { id, buckets: count });
}
