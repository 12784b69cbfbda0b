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
  mayExclude: false,
});

test('a map is current while Postgres has no later version, for two seconds after each comparison', () => {
  const map = new ShardMap(4);
  expect(() => map.assertNowhere(product)).toThrow('not known in which shards');
  map.compared(0, performance.now());
  map.assertNowhere(product);
  // Postgres has a later version, which is not read yet.
  map.compared(7, performance.now() + 60_000);
  map.compared(0, performance.now() - MAP_CURRENT_MS - 1);
  map.assertNowhere(product);
  const old = new ShardMap(4);
  old.compared(0, performance.now() - MAP_CURRENT_MS - 1);
  expect(() => old.assertNowhere(product)).toThrow('not known in which shards');
});

test('a map is not current once a shard has shown a later version, until it is read', () => {
  const map = new ShardMap(4);
  map.compared(0, performance.now());
  map.sees(9);
  map.sees(3);
  expect([map.isBehind, map.latest]).toEqual([true, 9]);
  expect(() => map.assertNowhere(product)).toThrow('not known in which shards');
  map.replace(placed(9));
  map.compared(9, performance.now());
  expect(map.isBehind).toBe(false);
  map.assertNowhere(product);
});

test('codes of other shards may exclude one if such a campaign exists, and while the map is behind', () => {
  const [map, one] = [new ShardMap(4), new ShardMap(1)];
  map.replace(placed(1));
  expect(map.mayExclude).toBe(false);
  map.sees(2);
  expect(map.mayExclude).toBe(true);
  map.replace(placed(2));
  expect(map.mayExclude).toBe(false);
  map.replace({ ...placed(3), mayExclude: true });
  one.replace({ ...placed(3), mayExclude: true });
  expect([map.mayExclude, one.mayExclude]).toEqual([true, false]);
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

test('a bucket has no shard while it is not known whether the campaign is divided', () => {
  const map = new ShardMap(4);
  expect(map.shardOf(product, 0)).toBe(HASH);
  expect(() => map.shardOf(product, 1)).toThrow('not known in which shards');
  expect(() => map.assertDivided(product)).toThrow('not known in which shards');
  map.compared(0, performance.now());
  // Somebody has made up the id of a reservation.
  expect(map.shardOf(product, 1)).toBe(HASH);
  map.sees(2);
  expect(() => map.shardOf(product, 1)).toThrow('not known in which shards');
  map.replace(placed(2, [], [[product, 4]]));
  map.sees(3);
  expect(map.shardOf(product, 1)).toBe((HASH + 1) % 4);
  map.assertDivided(product);
});

test('a campaign that was placed is never taken for one that does not exist: it may be on its way', () => {
  const map = new ShardMap(4);
  map.replace(placed(2, [[product, OTHER]]));
  map.compared(2, performance.now());
  expect(() => map.assertNowhere(product)).toThrow('its shard does not have sneaker-42 yet');
  map.assertNowhere('another-product' as ProductId);
  expect([map.isIn(at(OTHER), OTHER), map.isIn(at(OTHER), HASH), map.isIn(at(null), HASH)]).toEqual([
    true,
    false,
    true,
  ]);
});

test('neither is a divided campaign, also if its home is the shard of its hash', () => {
  const map = new ShardMap(4);
  map.replace(placed(2, [], [[product, 4]]));
  map.compared(2, performance.now());
  expect(() => map.assertNowhere(product)).toThrow('its shard does not have sneaker-42 yet');
});

test('a process that ran through does not take the rows of a Postgres that was set back for true', () => {
  const map = new ShardMap(4);
  map.replace(placed(9, [[product, OTHER]]));
  map.sees(9);
  map.compared(9, performance.now());
  expect([map.isSetBack, map.isBehind]).toEqual([false, false]);
  map.compared(4, performance.now());
  expect([map.isSetBack, map.isBehind, map.shardOf(product, 0)]).toEqual([true, false, OTHER]);
  expect(map.agreesWith(at(OTHER))).toBe(false);
  map.replace(placed(10, [[product, OTHER]]));
  expect([map.isSetBack, map.agreesWith(at(OTHER))]).toEqual([false, true]);
});

test('one shard has every campaign', () => {
  const map = new ShardMap(1);
  map.sees(9);
  map.assertNowhere(product);
  expect(map.agreesWith(at(3))).toBe(true);
});
