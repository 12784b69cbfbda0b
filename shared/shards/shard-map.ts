import { bucketOfShard, bucketOfUser, FIRST_BUCKET, shardOfBucket } from '../domain/buckets.js';
import type { CampaignId, ProductId, UserId } from '../domain/ids.js';
import { type ShardCount, shardOfProduct } from '../domain/shards.js';
import { EngineUnavailable } from '../errors/faults.js';
import { type DividedCampaign, readSharding, type Sharding } from '../postgres/installation.js';
import type { Queryable } from '../postgres/pool.js';

/** A campaign as Postgres has it. `shard`: null = that of its hash */
type Placed = { productId: ProductId; shard: number | null; buckets: number };

/** A map that was compared with Postgres within this time is current. A creation waits as long for each process. */
export const MAP_CURRENT_MS = 2_000;

/**
 * In which shard each campaign is, and each bucket of a divided one. A campaign that is missing where the map puts it
 * exists nowhere only if the map is current (decision 69).
 */
export class ShardMap {
  /** Campaigns that were moved. */
  #moved: ReadonlyMap<ProductId, number> = new Map();
  #divided: ReadonlyMap<ProductId, DividedCampaign> = new Map();
  #mayExclude = false;
  #version = 0;
  /** The latest version that a shard of Redis has shown. */
  #seen = 0;
  /** The version that Postgres had last. */
  #found = 0;
  /** When Postgres had no later version, in ms of `performance.now`. */
  #comparedAt = Number.NEGATIVE_INFINITY;
  readonly #listeners: (() => void)[] = [];

  constructor(readonly count: ShardCount) {}

  /** Of the moves that this process knows. */
  get version(): number {
    return this.#version;
  }

  /** The latest version that this process has read, or a shard of Redis has shown. */
  get latest(): number {
    return Math.max(this.#version, this.#seen);
  }

  /** Takes the version that a shard of Redis has. */
  sees(version: number): void {
    this.#seen = Math.max(this.#seen, version);
  }

  /** Takes the version that Postgres had at that moment, in ms of `performance.now`. */
  compared(version: number, atMs: number): void {
    this.#found = version;
    if (version <= this.#version) this.#comparedAt = Math.max(this.#comparedAt, atMs);
  }

  /**
   * Whether Postgres lacks places that this process or Redis knows of: it was set back, or has yet to be read. Then its
   * rows do not say where campaigns are.
   */
  get isSetBack(): boolean {
    return this.count > 1 && this.#found < Math.max(this.#version, this.#seen);
  }

  /** Whether the map lacks places that Redis knows of: this process has yet to read them, or Postgres was set back. */
  get isBehind(): boolean {
    return this.count > 1 && this.#version < this.#seen;
  }

  /**
   * Whether another shard may have put a code on an order that combines with no other one. Such a campaign begins when
   * every process knows it from here. A process that could not read that sees in Redis that it is behind.
   */
  get mayExclude(): boolean {
    return this.count > 1 && (this.#mayExclude || this.isBehind);
  }

  /**
   * Checks that a campaign exists nowhere, because its shard lacks it.
   * @throws EngineUnavailable while it may be in another shard, or is on its way between two
   */
  assertNowhere(product: ProductId): void {
    if (this.count === 1) return;
    if (this.#moved.has(product) || this.#divided.has(product))
      throw new EngineUnavailable('redis', `its shard does not have ${product} yet`);
    this.#assertCurrent();
  }

  /** Checks that this process knows that a campaign is divided, as its hash says. @throws EngineUnavailable if not */
  assertDivided(product: ProductId): void {
    if (!this.#divided.has(product))
      throw new EngineUnavailable('postgres', `it is not known in which shards the buckets of ${product} are`);
  }

  #assertCurrent(): void {
    if (this.isBehind || performance.now() - this.#comparedAt > MAP_CURRENT_MS)
      throw new EngineUnavailable('postgres', 'it is not known in which shards campaigns are');
  }

  /** Whether a campaign as Postgres has it now, or a bucket of it, is in a shard. */
  isIn(campaign: Placed, index: number): boolean {
    return this.bucketOfRow(campaign, index) !== null;
  }

  /** The shard of a campaign, as Postgres has it now, or of its first bucket. */
  homeOf({ productId, shard }: Omit<Placed, 'buckets'>): number {
    return shard ?? shardOfProduct(productId, this.count);
  }

  /** The bucket of a campaign, as Postgres has it now, that a shard has; null = none. */
  bucketOfRow(campaign: Placed, index: number): number | null {
    return bucketOfShard(this.homeOf(campaign), index, campaign.buckets, this.count);
  }

  /**
   * Whether a campaign as Postgres has it now is where this map has it. Otherwise this process must not load it by this
   * map: it would be in two shards.
   */
  agreesWith(campaign: Placed): boolean {
    if (this.count === 1) return true;
    const { productId, buckets } = campaign;
    const isSame = this.shardOf(productId, FIRST_BUCKET) === this.homeOf(campaign);
    return !this.isSetBack && isSame && this.bucketsOf(productId) === buckets;
  }

  /**
   * @param bucket of a divided campaign; other campaigns have only bucket 0
   * @throws EngineUnavailable for another bucket, if this process may not know yet that the campaign is divided
   */
  shardOf(product: ProductId, bucket: number): number {
    if (this.count === 1) return 0;
    if (bucket !== FIRST_BUCKET && !this.#divided.has(product)) this.#assertCurrent();
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

  /** Reads the map from Postgres. @throws EngineUnavailable */
  async read(database: Queryable): Promise<void> {
    this.replace(await readSharding(database));
  }

  /** Takes the map that Postgres has. */
  replace({ version, moved, buckets, mayExclude }: Omit<Sharding, 'shards' | 'left'>): void {
    this.#found = version;
    // Several shards read it at once, so an older state may arrive later.
    if (version < this.#version) return;
    this.#moved = moved;
    this.#divided = buckets;
    this.#mayExclude = mayExclude;
    this.#version = version;
    for (const listener of this.#listeners) listener();
  }

  /** Takes the shard that has a campaign, or its first bucket, where Postgres may lack it. */
  learn(product: ProductId, shard: number): void {
    this.#moved = new Map([...this.#moved, [product, shard]]);
  }

  /** Adds a divided campaign that Postgres lacks. @param home the shard of its bucket 0 */
  addDivided(product: ProductId, home: number, campaign: DividedCampaign): void {
    this.learn(product, home);
    this.#divided = new Map([...this.#divided, [product, campaign]]);
  }

  /** Calls back when campaigns have moved. */
  onMoved(listener: () => void): void {
    this.#listeners.push(listener);
  }
}
