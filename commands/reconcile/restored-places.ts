import type { ProductId } from '../../shared/domain/ids.js';
import { SHARD_COUNTS, type ShardCount, shardOfProduct } from '../../shared/domain/shards.js';
import { raiseMapVersion, readSharding, type Sharding } from '../../shared/postgres/installation.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import { readEpoch } from '../../shared/redis/epoch.js';
import { decodeInstallation, type Installation } from '../../shared/redis/installation.js';
import { keys } from '../../shared/redis/keys.js';
import type { RedisTarget } from '../../shared/redis/redis-target.js';
import { ShardMap } from '../../shared/shards/shard-map.js';
import { CommandShards } from '../command-shards.js';
import { type FoundCampaign, findCampaigns } from './found-campaigns.js';

/** Two shards have the same campaign, so Redis does not prove where it is. */
export class TwoPlaces extends Error {
  override readonly name = 'TwoPlaces';
}

type Engines = { target: RedisTarget; database: Database; limits: CommandShards['limits'] };

/**
 * The number of shards, and where campaigns are. Postgres has both, and loses the last changes when it is set back.
 * Redis proves them: a campaign is in the shard that has it, and each shard keeps the number and the latest version of
 * the map that it has seen (decision 69).
 */
export class RestoredPlaces {
  private constructor(
    readonly shards: CommandShards,
    readonly database: Database,
    /** As Postgres had it. */
    readonly before: Sharding,
    /** The latest that a shard of Redis has. */
    readonly kept: Installation,
    /** What all shards have, if there are several. */
    readonly found: readonly FoundCampaign[],
    /** Campaign → the shard that has it, or its first bucket. */
    readonly homes: ReadonlyMap<ProductId, number>,
  ) {}

  /**
   * Reads the number of shards, and where campaigns are.
   * @throws TwoPlaces @throws Error when a shard cannot be reached whose campaigns Postgres may lack
   */
  static async read(engines: Engines): Promise<RestoredPlaces> {
    const before = await readSharding(engines.database);
    const kept = await latest(engines, before);
    const isBehind = kept.version > before.version;
    const map = new ShardMap((isBehind ? kept.shards : before.shards) as ShardCount);
    map.replace(before);
    map.sees(kept.version);
    const shards = new CommandShards(engines.target, engines.database, map, engines.limits);
    try {
      const found = map.count > 1 ? await findCampaigns(shards) : [];
      const homes = homesOf(found);
      for (const [product, shard] of homes) map.learn(product, shard);
      return new RestoredPlaces(shards, engines.database, before, kept, found, homes);
    } catch (error) {
      shards.close();
      throw error;
    }
  }

  /** Whether Postgres has an earlier map than Redis, or another one. */
  get isBehind(): boolean {
    return this.kept.version > this.before.version || this.#misplaced.length > 0;
  }

  /** Whether Postgres lacks a change of the number of shards. */
  get hasLostNumber(): boolean {
    return this.before.shards !== this.shards.map.count;
  }

  /** What Postgres lacks, one line each. */
  get lines(): string[] {
    const lost = this.hasLostNumber
      ? [`shards: ${this.shards.map.count} in Redis, ${this.before.shards} in Postgres`]
      : [];
    return [...lost, ...this.#misplaced.map(([product, shard]) => `campaign ${product}\n  shard: ${shard} in Redis`)];
  }

  get #misplaced(): [product: ProductId, shard: number][] {
    return [...this.homes].filter(([product, shard]) => this.#homeBefore(product) !== shard);
  }

  /**
   * Writes the number of shards, and the places of campaigns that Postgres has. The version of the map stays. The
   * cursors of another number of shards are positions of other journals, so all begin again: each record of Redis is
   * compared with its row.
   * @throws Error when the number was lost and a shard is out of service, so that Redis does not prove it
   */
  async begin(): Promise<void> {
    const { count: shards } = this.shards.map;
    for (let index = 0; this.hasLostNumber && index < shards; index += 1)
      if ((await readEpoch((await this.shards.open(index)).redis)) === null)
        throw new Error(`Redis seems to have ${shards} shards, but shard ${index} is out of service`);
    await this.database.transaction(async (client) => {
      const { count } = this.shards.map;
      if (this.hasLostNumber) {
        await client.query('update installation set shards = $1, left_shards = null', [count]);
        await client.query('update campaigns set shard = null where shard is not null');
        await client.query(
          `insert into journal_cursor (shard, last_id) select n, '0-0' from generate_series(0, $1::int - 1) n
           on conflict (shard) do update set last_id = excluded.last_id`,
          [count],
        );
      }
      await this.#writePlaces(client);
    });
  }

  /**
   * Writes the places of all campaigns, and a later version of the map than any before. Only then do processes take
   * their map for current, so everything else must be repaired.
   */
  finish(): Promise<void> {
    return this.database.transaction(async (client) => {
      await this.#writePlaces(client);
      await raiseMapVersion(client, this.kept.version);
    });
  }

  async #writePlaces(client: Queryable): Promise<void> {
    const { count } = this.shards.map;
    const isElsewhere = ([product, shard]: [ProductId, number]) => shard !== shardOfProduct(product, count);
    const places = this.hasLostNumber ? [...this.homes].filter(isElsewhere) : this.#misplaced;
    await client.query(
      `update campaigns c set shard = n.shard from unnest($1::text[], $2::int[]) as n(product, shard)
       where c.product_id = n.product and c.shard is distinct from n.shard`,
      [places.map(([product]) => product), places.map(([, shard]) => shard)],
    );
  }

  #homeBefore(product: ProductId): number {
    return this.before.moved.get(product) ?? shardOfProduct(product, this.before.shards as ShardCount);
  }
}

/**
 * Reads what each shard has kept, also under the tags of other numbers of shards. Those of the number in Postgres must
 * be readable; a shard of another number that is away is named by the others.
 */
async function latest({ target, database, limits }: Engines, { shards }: Sharding): Promise<Installation> {
  let found: Installation = { shards, version: 0 };
  // First the number of Postgres: another one must be of a later version.
  for (const count of [...SHARD_COUNTS].sort((a, b) => Number(b === shards) - Number(a === shards))) {
    const some = new CommandShards(target, database, new ShardMap(count), limits);
    try {
      for (let index = 0; index < (count === shards ? count : 1); index += 1) {
        const kept = decodeInstallation(await (await some.open(index)).redis.get(keys.installation));
        if (kept && kept.version > found.version) found = kept;
      }
    } catch (error) {
      if (count === shards) throw error;
    } finally {
      some.close();
    }
  }
  return found;
}

/** In which shard each campaign is. A shard that is being filled proves nothing. */
function homesOf(found: readonly FoundCampaign[]): Map<ProductId, number> {
  const homes = new Map<ProductId, number>();
  for (const { shard, isInService, product, copy } of found) {
    if (!isInService || !copy || (copy.part && copy.part.bucket > 0)) continue;
    const other = homes.get(product);
    if (other !== undefined) throw new TwoPlaces(`${product} is in shard ${other} and in shard ${shard}`);
    homes.set(product, shard);
  }
  return homes;
}
