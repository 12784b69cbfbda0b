import { bucketOfShard, bucketOfUser, FIRST_BUCKET, shardOfBucket } from '../domain/buckets.js';
import type { CampaignId, ProductId, UserId } from '../domain/ids.js';
import { type ShardCount, shardOfProduct } from '../domain/shards.js';
import type { DividedCampaign, Sharding } from '../postgres/installation.js';

/** In which shard each campaign is, and each bucket of a divided one. */
export class ShardMap {
  /** Campaigns that were moved. */
  #moved: ReadonlyMap<ProductId, number> = new Map();
  #divided: ReadonlyMap<ProductId, DividedCampaign> = new Map();
  #version = 0;
  readonly #listeners: (() => void)[] = [];

  constructor(readonly count: ShardCount) {}

  /** Of the moves that this process knows. */
  get version(): number {
    return this.#version;
  }

  /** @param bucket of a divided campaign; other campaigns have only bucket 0 */
  shardOf(product: ProductId, bucket: number): number {
    if (this.count === 1) return 0;
    const home = this.#moved.get(product) ?? shardOfProduct(product, this.count);
    return bucket === FIRST_BUCKET ? home : shardOfBucket(home, bucket, this.bucketsOf(product), this.count);
  }

  /** How many buckets a campaign has; 1 = it is not divided. */
  bucketsOf(product: ProductId): number {
    return this.#divided.get(product)?.buckets ?? 1;
  }

  /** The bucket of a user; 0 in a campaign that is not divided. */
  bucketOf(product: ProductId, user: UserId): number {
    const divided = this.#divided.get(product);
    return divided ? bucketOfUser(user, divided.buckets) : 0;
  }

  /** The bucket of a campaign that a shard has; null = none. */
  bucketIn(product: ProductId, shard: number): number | null {
    return bucketOfShard(this.shardOf(product, FIRST_BUCKET), shard, this.bucketsOf(product), this.count);
  }

  /** All divided campaigns, also closed ones. */
  get divided(): ReadonlyMap<ProductId, DividedCampaign> {
    return this.#divided;
  }

  /** The id of a divided campaign; null = it is not divided. */
  dividedId(product: ProductId): CampaignId | null {
    return this.#divided.get(product)?.id ?? null;
  }

  replace({ version, moved, buckets }: Pick<Sharding, 'version' | 'moved' | 'buckets'>): void {
    // Several shards read it at once, so an older state may arrive later.
    if (version < this.#version) return;
    this.#moved = moved;
    this.#divided = buckets;
    this.#version = version;
    for (const listener of this.#listeners) listener();
  }

  /** Adds a divided campaign that Postgres lacks. @param home the shard of its bucket 0 */
  addDivided(product: ProductId, home: number, campaign: DividedCampaign): void {
    this.#moved = new Map([...this.#moved, [product, home]]);
    this.#divided = new Map([...this.#divided, [product, campaign]]);
  }

  /** Calls back when campaigns have moved. */
  onMoved(listener: () => void): void {
    this.#listeners.push(listener);
  }
}
