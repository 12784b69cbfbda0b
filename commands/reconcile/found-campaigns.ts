import { shardOfBucket } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { readEpoch } from '../../shared/redis/epoch.js';
import { type CampaignCopy, SaleCopy } from '../../shared/sale/sale-copy.js';
import type { ShardMap } from '../../shared/shards/shard-map.js';
import type { CommandShards } from '../command-shards.js';

/** A campaign, or a bucket of one, in the directory of a shard. `copy`: null = the shard lacks the campaign itself. */
export type FoundCampaign = {
  shard: number;
  isInService: boolean;
  no: number;
  product: ProductId;
  copy: CampaignCopy | null;
};

/** Finds what all shards have, also those that are out of service. */
export async function findCampaigns(shards: CommandShards): Promise<FoundCampaign[]> {
  const found: FoundCampaign[] = [];
  for (let shard = 0; shard < shards.map.count; shard += 1) {
    const { redis } = await shards.open(shard);
    const isInService = (await readEpoch(redis)) !== null;
    const sale = new SaleCopy(redis);
    for (const [no, product] of await sale.directory())
      found.push({ shard, isInService, no, product, copy: await sale.campaign(product) });
  }
  return found;
}

/**
 * Adds the divided campaigns that Postgres lacks to the map of the shards.
 * @returns the shards that have buckets; they are repaired together
 * @throws Error when a bucket of a campaign that Postgres lacks is missing
 */
export function learnDivided(map: ShardMap, found: readonly FoundCampaign[]): number[] {
  const buckets = found.flatMap(({ shard, copy }) => (copy?.part ? [{ shard, copy, bucket: copy.part.bucket }] : []));
  for (const product of new Set(buckets.map(({ copy }) => copy.product))) {
    if (map.bucketsOf(product) > 1) continue;
    const its = buckets.filter(({ copy }) => copy.product === product);
    const home = its.find(({ bucket }) => bucket === 0);
    const isThere = ({ shard, bucket }: (typeof its)[number]) =>
      home && bucket < its.length && shardOfBucket(home.shard, bucket, its.length, map.count) === shard;
    if (!home || !its.every(isThere))
      throw new Error(`${product} is not in Postgres, and Redis does not have all of its buckets`);
    map.addDivided(product, home.shard, { id: home.copy.details.id, buckets: its.length });
  }
  return [...new Set(buckets.map(({ shard }) => shard))].sort((a, b) => a - b);
}
