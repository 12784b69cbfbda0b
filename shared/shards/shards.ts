import type { Redis } from 'ioredis';
import type { ProductId } from '../domain/ids.js';
import { spread } from '../domain/shards.js';
import type { RedisGate } from '../redis/gate.js';
import type { ShardMap } from './shard-map.js';

/** Where data about callers are: each in the shard that its name chooses, so that they spread evenly. */
export type CallerShards = {
  readonly all: readonly CallerShard[];
  /** @param name the caller, or what else names the data */
  spread(name: string): CallerShard;
};
export type CallerShard = { index: number; commands: Redis; gate: RedisGate };

/**
 * What a process has for each shard. A shard is all that Redis is for its campaigns: the journal and its history, the
 * gate, the idempotency records (decision 41). Shards share nothing, so one that is away affects only its campaigns.
 */
export class Shards<One extends { index: number }> {
  constructor(
    /** By index. */
    readonly all: readonly One[],
    readonly map: ShardMap,
  ) {}

  /**
   * The first shard. It also has what belongs to no campaign: the event stream, the job queues, copies of bans,
   * metrics.
   */
  get home(): One {
    return this.#at(0);
  }

  /** The shard of a campaign, or of one of its buckets. */
  of(product: ProductId, bucket: number): One {
    return this.#at(this.map.shardOf(product, bucket));
  }

  /** A shard for data about a caller, see `CallerShards`. */
  spread(name: string): One {
    const { length } = this.all;
    return length === 1 ? this.home : this.#at(Math.floor((spread(name) / 2 ** 32) * length));
  }

  #at(index: number): One {
    const shard = this.all[index];
    if (!shard) throw new RangeError(`there is no shard ${index}`);
    return shard;
  }
}
