import type { CampaignId, ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { Queryable } from './pool.js';

/**
 * How the campaigns of an installation spread over shards. `moved`: campaigns that are in another shard than usual;
 * `version` grows whenever one moves. `buckets`: campaigns that are divided. `left`: the number of shards before,
 * while Redis still has their campaigns. `mayExclude`: whether orders may have a code that combines with no other one.
 */
export type Sharding = {
  shards: number;
  left: number | null;
  version: number;
  moved: ReadonlyMap<ProductId, number>;
  buckets: ReadonlyMap<ProductId, DividedCampaign>;
  mayExclude: boolean;
};
/** A campaign with several buckets. `over`: it is closed, and no unit is on its way between them. */
export type DividedCampaign = { id: CampaignId; buckets: number; over?: boolean };

/** Reads the table `installation`, and which campaigns were moved or are divided. */
export async function readSharding(database: Queryable): Promise<Sharding> {
  const { rows } = await database.query<{
    shards: number;
    left_shards: number | null;
    map_version: string;
    product_id: ProductId | null;
    shard: number | null;
    campaign_id: CampaignId | null;
    buckets: number | null;
    over: boolean | null;
    may_exclude: boolean;
  }>(
    // Also by earlier terms, because orders have the codes that were redeemed under them.
    `select i.shards, i.left_shards, i.map_version, c.product_id, c.shard, c.campaign_id, c.buckets,
       exists (select 1 from campaign_terms t join campaigns using (campaign_id)
         where t.stacking @> '{"exclusive": true}' and redemptions_dropped_at is null) as may_exclude,
       c.status = 'closed' and not exists (select 1 from stock_transfers t
         where t.campaign_id = c.campaign_id and t.moved_in_at is null) as over
     from installation i left join campaigns c on c.shard is not null or c.buckets > 1`,
  );
  return {
    shards: rows[0]?.shards ?? 1,
    left: rows[0]?.left_shards ?? null,
    version: Number(rows[0]?.map_version ?? 0),
    moved: new Map(
      rows.flatMap(({ product_id, shard }) => (product_id && shard !== null ? [[product_id, shard]] : [])),
    ),
    buckets: new Map(
      rows.flatMap(({ product_id, campaign_id: id, buckets, over }) =>
        product_id && id && buckets !== null && buckets > 1 ? [[product_id, { id, buckets, over: over === true }]] : [],
      ),
    ),
    mayExclude: rows[0]?.may_exclude ?? false,
  };
}

/**
 * Locks the number of shards until the end of the transaction, so that nothing is recorded in it for a number that
 * `npm run reshard` changes meanwhile.
 * @param shards that this process works with
 * @param seen the latest version of the map of campaigns that Redis has shown
 * @throws EngineUnavailable when the installation has another number, or gets one now, or when Postgres was set back to
 *   an earlier map: a new place would hide those that it has lost
 */
export async function lockShards(client: Queryable, shards: number, seen = 0): Promise<void> {
  const { rows } = await client.query<{ shards: number; map_version: string; begun: boolean }>(
    `select shards, map_version, exists (select 1 from journal_histories) as begun
     from installation for no key update`,
  );
  const [found] = rows;
  if (found && Number(found.map_version) < seen)
    throw new EngineUnavailable('postgres', 'it was set back and lacks places of campaigns that Redis has');
  // Before the first worker has started, the installation has no number yet.
  if (found?.begun && found.shards !== shards)
    throw new EngineUnavailable('postgres', `this installation has ${found.shards} shards, and ${shards} are set here`);
}

/**
 * Records that a campaign is in another shard from now on. The caller holds `lockShards`.
 * @param from its shard until now, and the one that its product has by the number of shards; null = it is new
 * @returns the version that every process must know; null = it is in another shard than `from`
 */
export async function moveCampaign(
  client: Queryable,
  product: ProductId,
  to: number,
  from: { shard: number; usual: number } | null = null,
): Promise<number | null> {
  const { rowCount } = await client.query(
    'update campaigns set shard = $2 where product_id = $1 and ($3::int is null or coalesce(shard, $4::int) = $3)',
    [product, to, from?.shard ?? null, from?.usual ?? null],
  );
  return rowCount === 0 ? null : raiseMapVersion(client);
}

/**
 * Gives the map of campaigns a new version: the time in milliseconds, at least the last version plus one. So a Postgres
 * that was set back never gives a version again.
 * @param above the new version is also later than this one
 */
export async function raiseMapVersion(client: Queryable, above = 0): Promise<number> {
  const { rows } = await client.query<{ map_version: string }>(
    `update installation set map_version =
       greatest(map_version + 1, $1::bigint + 1, (extract(epoch from clock_timestamp()) * 1000)::bigint)
     returning map_version`,
    [above],
  );
  return Number(rows[0]?.map_version);
}
