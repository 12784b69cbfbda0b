import { setTimeout as sleep } from 'node:timers/promises';
import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { shardOfNewCampaign, shardOfProduct } from '../../shared/domain/shards.js';
import type { Stacking } from '../../shared/domain/stacking.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import { lockShards, moveCampaign, raiseMapVersion } from '../../shared/postgres/installation.js';
import type { JournalHistories } from '../../shared/postgres/journal-histories.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import { MAP_CURRENT_MS, type ShardMap } from '../../shared/shards/shard-map.js';

const LOOK_AGAIN_MS = 20;

type CampaignRules = StoredCampaign['rules'];

export type PlacementDeps = {
  database: Queryable;
  map: ShardMap;
  histories: Pick<JournalHistories, 'allKnowMap'>;
  /** Writes the version of the map to every shard that can be reached. */
  keepInRedis: (version: number) => Promise<void>;
  processId: string;
  /** A process that reported within this time is alive. */
  aliveMs: () => number;
};

/** `version`: of the map of campaigns; null = one shard. `mustBeKnown`: whether processes must have that map. */
export type Placed = { shard: number; version: number | null; mustBeKnown: boolean };

/**
 * Chooses the shard of a new campaign. By their hash alone, a hundred campaigns load one node a third more than the
 * others in one of eight cases. So a campaign whose shard has its share of the live campaigns already is put into the
 * one with the fewest.
 */
export class CampaignPlacement {
  constructor(readonly deps: PlacementDeps) {}

  /**
   * Places a campaign that the caller's transaction has created. The map gets a new version even if the campaign stays
   * in the shard of its hash. So a Postgres that was set back and lacks the campaign is noticed without that shard.
   * @param campaign all processes must know that it is divided, or combines with no other one
   * @throws EngineUnavailable when the number of shards changes, or Postgres was set back
   */
  async place(
    client: Queryable,
    { productId: product, buckets, rules }: Pick<StoredCampaign, 'productId' | 'buckets' | 'rules'>,
  ): Promise<Placed> {
    const { map } = this.deps;
    await lockShards(client, map.count, map.count > 1 ? map.latest : 0);
    if (map.count === 1) return { shard: 0, version: null, mustBeKnown: false };
    const move = async (shard: number): Promise<Placed> => {
      return { shard, version: await moveCampaign(client, product, shard), mustBeKnown: true };
    };
    if (buckets > 1) return move(map.shardOf(product, FIRST_BUCKET));
    const { rows } = await client.query<{ product_id: ProductId; shard: number | null }>(
      `select product_id, shard from campaigns where status <> 'closed' and product_id <> $1`,
      [product],
    );
    const counts = Array.from({ length: map.count }, () => 0);
    for (const row of rows) {
      const shard = row.shard ?? shardOfProduct(row.product_id, map.count);
      counts[shard] = (counts[shard] ?? 0) + 1;
    }
    const usual = shardOfProduct(product, map.count);
    const shard = shardOfNewCampaign(usual, counts);
    if (shard === usual) return { shard, version: await raiseMapVersion(client), mustBeKnown: isExclusive(rules) };
    return move(shard);
  }

  /**
   * Gives the map a new version if the codes of a campaign begin to combine with no others, in the transaction that
   * changes its terms.
   * @returns the version that processes must have; null = no map has to change
   */
  async exclude(client: Queryable, before: CampaignRules, after: CampaignRules): Promise<number | null> {
    const begins = isExclusive(after) && !isExclusive(before);
    return this.deps.map.count > 1 && begins ? raiseMapVersion(client) : null;
  }

  /**
   * Waits until every live process knows the place of the campaign, for at most two seconds. A process that does not
   * report in time is frozen or cut off. Its map is not current any more, so it replies 503 about a campaign that it
   * does not find.
   */
  async untilKnown({ version, mustBeKnown }: Pick<Placed, 'version' | 'mustBeKnown'>): Promise<void> {
    if (version === null) return;
    const { database, map, histories, keepInRedis, processId, aliveMs } = this.deps;
    await map.read(database);
    await keepInRedis(version);
    if (!mustBeKnown) return;
    const until = performance.now() + MAP_CURRENT_MS;
    while (performance.now() < until && !(await histories.allKnowMap(version, processId, aliveMs())))
      await sleep(LOOK_AGAIN_MS);
  }

  /**
   * Checks that this process knows where a campaign is before it loads it.
   * @param campaign as Postgres has it now
   * @throws EngineUnavailable when it does not, or Postgres was set back
   */
  async assertKnown(campaign: StoredCampaign): Promise<void> {
    const { map, database } = this.deps;
    if (map.agreesWith(campaign)) return;
    await map.read(database);
    if (!map.agreesWith(campaign))
      throw new EngineUnavailable('postgres', `it is not known in which shard ${campaign.productId} is`);
  }
}

/** Whether the codes of a campaign with these rules combine with no others. */
const isExclusive = ({ stacking }: CampaignRules): boolean => (stacking as Stacking | undefined)?.exclusive === true;
