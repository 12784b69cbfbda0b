import { shardOfBucket } from '../../shared/domain/buckets.js';
import type { CampaignId, ProductId } from '../../shared/domain/ids.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import type { ShardMap } from '../../shared/shards/shard-map.js';
import type { CommandShards } from '../command-shards.js';

type Found = { product: ProductId; id: CampaignId; shard: number; bucket: number };

/**
 * Finds the divided campaigns in Redis, and adds those that Postgres lacks to the map of the shards.
 * @returns the shards that have buckets; they are repaired together
 * @throws Error when a bucket of a campaign that Postgres lacks is missing
 */
export async function findDivided(shards: CommandShards): Promise<number[]> {
  if (shards.map.count === 1) return [];
  const found: Found[] = [];
  for (let shard = 0; shard < shards.map.count; shard += 1) {
    const copy = new SaleCopy((await shards.open(shard)).redis);
    for (const [, product] of await copy.directory()) {
      const campaign = await copy.campaign(product);
      if (campaign?.part) found.push({ product, id: campaign.details.id, shard, bucket: campaign.part.bucket });
    }
  }
  for (const product of new Set(found.map((one) => one.product))) {
    const buckets = found.filter((one) => one.product === product);
    if (shards.map.bucketsOf(product) === 1) addDivided(shards.map, product, buckets);
  }
  return [...new Set(found.map(({ shard }) => shard))].sort((a, b) => a - b);
}

/** Adds a campaign that Postgres lacks: all of its buckets are in Redis. */
function addDivided(map: ShardMap, product: ProductId, found: readonly Found[]): void {
  const home = found.find(({ bucket }) => bucket === 0);
  const buckets = found.length;
  const isThere = ({ shard, bucket }: Found) =>
    home && bucket < buckets && shardOfBucket(home.shard, bucket, buckets, map.count) === shard;
  if (!home || !found.every(isThere))
    throw new Error(`${product} is not in Postgres, and Redis does not have all of its buckets`);
  map.addDivided(product, home.shard, { id: home.id, buckets });
}
