import type { ProductId } from '../domain/ids.js';
import type { Queryable } from './pool.js';

/**
 * How the campaigns of an installation spread over shards. `moved`: campaigns that are in another shard than usual;
 * `version` grows whenever one moves. `left`: the number of shards before, while Redis still has their campaigns.
 */
export type Sharding = { shards: number; left: number | null; version: number; moved: ReadonlyMap<ProductId, number> };

/** Reads the table `installation`, and which campaigns were moved. */
export async function readSharding(database: Queryable): Promise<Sharding> {
  const { rows } = await database.query<{
    shards: number;
    left_shards: number | null;
    map_version: string;
    product_id: ProductId | null;
    shard: number | null;
  }>(
    `select i.shards, i.left_shards, i.map_version, c.product_id, c.shard
     from installation i left join campaigns c on c.shard is not null`,
  );
  return {
    shards: rows[0]?.shards ?? 1,
    left: rows[0]?.left_shards ?? null,
    version: Number(rows[0]?.map_version ?? 0),
    moved: new Map(
      rows.flatMap(({ product_id, shard }) => (product_id && shard !== null ? [[product_id, shard]] : [])),
    ),
  };
}

/** Records that a campaign is in another shard from now on. @returns the version that every process must know */
export async function moveCampaign(client: Queryable, product: ProductId, shard: number): Promise<number> {
  await client.query('update campaigns set shard = $2 where product_id = $1', [product, shard]);
  const { rows } = await client.query<{ map_version: string }>(
    'update installation set map_version = map_version + 1 returning map_version',
  );
  return Number(rows[0]?.map_version);
}
