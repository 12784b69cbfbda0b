import { expect, test } from '@jest/globals';
import type { CampaignId, ProductId } from '../domain/ids.js';
import { shardOfProduct } from '../domain/shards.js';
import { MAP_CURRENT_MS, ShardMap } from './shard-map.js';

const product = 'sneaker-42' as ProductId;
const HASH = shardOfProduct(product, 4);
const OTHER = (HASH + 1) % 4;
const at = (shard: number | null, buckets = 1) => ({ productId: product, shard, buckets });
const placed = (version: number, moved: [ProductId, number][] = [], buckets: [ProductId, number][] = []) => ({
  version,
  moved: new Map(moved),
  buckets: new Map(buckets.map(([name, count]) => [name, { id: name as string as CampaignId, buckets: count }])),
});

test('a map is current while Postgres has no later version, for two seconds after each comparison', () => {
  const map = new ShardMap(4);
  expect(() => map.assertCurrent()).toThrow('not known in which shards');
  map.compared(0, performance.now());
  map.assertCurrent();
  // Postgres has a later version, which is not read yet.
  map.compared(7, performance.now() + 60_000);
  map.compared(0, performance.now() - MAP_CURRENT_MS - 1);
  map.assertCurrent();
  const old = new ShardMap(4);
  old.compared(0, performance.now() - MAP_CURRENT_MS - 1);
  expect(() => old.assertCurrent()).toThrow('not known in which shards');
});

test('a map is not current once a shard has shown a later version, until it is read', () => {
  const map = new ShardMap(4);
  map.compared(0, performance.now());
  map.sees(9);
  map.sees(3);
  expect([map.isBehind, map.seen]).toEqual([true, 9]);
  expect(() => map.assertCurrent()).toThrow('not known in which shards');
  map.replace(placed(9));
  map.compared(9, performance.now());
  expect(map.isBehind).toBe(false);
  map.assertCurrent();
});

test('a map says nothing about the place of a campaign that Postgres has elsewhere, or that it may lack', () => {
  const map = new ShardMap(4);
  expect([map.agreesWith(at(null)), map.agreesWith(at(HASH)), map.agreesWith(at(OTHER))]).toEqual([true, true, false]);
  expect(map.agreesWith(at(null, 4))).toBe(false);
  map.replace(placed(2, [[product, OTHER]], [[product, 4]]));
  expect([map.agreesWith(at(OTHER, 4)), map.agreesWith(at(null, 4))]).toEqual([true, false]);
  map.sees(3);
  expect(map.agreesWith(at(OTHER, 4))).toBe(false);
});

test('one shard has every campaign', () => {
  const map = new ShardMap(1);
  map.sees(9);
  map.assertCurrent();
  expect(map.agreesWith(at(3))).toBe(true);
});
