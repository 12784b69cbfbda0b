import type { ProductId } from './ids.js';

/**
 * Numbers of shards that an installation may have: powers of two, so that doubling moves only half of the campaigns.
 */
export const SHARD_COUNTS = [1, 2, 4, 8, 16, 32, 64] as const;
export type ShardCount = (typeof SHARD_COUNTS)[number];

/** Hash slots of a Redis Cluster. */
export const SLOTS = 16_384;

/**
 * For each of 64 equal ranges of slots, in order, the smallest n for which the slot of `<range>.n` is in the middle
 * half of the range. Neighbouring ranges are on one node of an evenly divided cluster, so shards spread evenly over its
 * nodes. A test computes the table again.
 */
// biome-ignore format: one row for eight ranges
export const TAG_NUMBERS: readonly number[] = [
  321, 2, 307, 67, 44, 301, 11, 38,
  53, 8, 59, 7, 31, 18, 132, 307,
  12, 360, 10, 39, 326, 77, 300, 22,
  313, 55, 29, 100, 16, 171, 128, 75,
  149, 67, 79, 50, 11, 8, 13, 125,
  55, 341, 152, 29, 4, 23, 347, 76,
  117, 35, 56, 313, 360, 17, 333, 20,
  108, 35, 144, 37, 50, 79, 100, 168,
];

/**
 * The hash tag of a shard, without braces: the one of the range in the middle of the shard's share of all slots. Two
 * numbers of shards have no tag in common, so a process with another SHARDS finds nothing that it could mistake.
 * @param index from 0
 */
export function tagOfShard(index: number, count: ShardCount): string {
  const range = Math.floor((index + 0.5) * (TAG_NUMBERS.length / count));
  return `${range}.${TAG_NUMBERS[range]}`;
}

/**
 * What precedes every key of a shard: its tag in braces. "" on a single Redis with one shard, whose keys need no tag.
 * @param namespace of an installation that shares a cluster with others; "" = none
 */
export function shardPrefix(index: number, count: ShardCount, onCluster: boolean, namespace = ''): string {
  if (count === 1 && !onCluster) return '';
  return `{${tagOfShard(index, count)}}${namespace === '' ? '' : `${namespace}:`}`;
}

/** The shard in which a campaign is unless it was moved: the leading bits of the FNV-1a hash of its product. */
export function shardOfProduct(product: ProductId, count: ShardCount): number {
  return Math.floor((spread(product) / 2 ** 32) * count);
}

/**
 * The shard of a new campaign: that of its product, or the one with the fewest live campaigns if that one has its share
 * of them already. `npm run plan` counts with the most that a shard can have.
 * @param usual the shard of its product
 * @param live campaigns in each shard, without the new one
 */
export function shardOfNewCampaign(usual: number, live: readonly number[]): number {
  const share = Math.ceil((live.reduce((sum, campaigns) => sum + campaigns, 0) + 1) / live.length);
  return Number(live[usual]) < share ? usual : live.indexOf(Math.min(...live));
}

/**
 * FNV-1a with 32 bits, and the finalizer of MurmurHash3, because the leading bits of FNV-1a hardly depend on the last
 * characters of a text.
 * @param text usually ASCII: each character counts by its UTF-16 code
 * @returns 0 to 2^32 - 1
 */
export function spread(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
