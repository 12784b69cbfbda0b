import { describe, expect, it } from '@jest/globals';
import slotOf from 'cluster-key-slot';
import type { ProductId } from './ids.js';
import { SHARD_COUNTS, SLOTS, shardOfProduct, shardPrefix, TAG_NUMBERS, tagOfShard } from './shards.js';

const RANGES = TAG_NUMBERS.length;
const WIDTH = SLOTS / RANGES;

it('has for each range of slots the first number whose tag is in the middle half of it', () => {
  const computed = Array.from({ length: RANGES }, (_, range) => {
    for (let n = 0; ; n += 1) {
      const inRange = slotOf(`${range}.${n}`) - range * WIDTH;
      if (inRange >= WIDTH / 4 && inRange < (3 * WIDTH) / 4) return n;
    }
  });
  expect(TAG_NUMBERS).toEqual(computed);
});

describe('the shards of an installation', () => {
  it.each([2, 3, 4, 5, 6, 8])('spread over %i nodes so that two nodes differ by two at most', (nodes) => {
    for (const count of SHARD_COUNTS.filter((one) => one >= nodes)) {
      const perNode = Array.from({ length: nodes }, () => 0);
      for (let shard = 0; shard < count; shard += 1) {
        const node = Math.floor((slotOf(`{${tagOfShard(shard, count)}}any`) * nodes) / SLOTS);
        perNode[node] = (perNode[node] ?? 0) + 1;
      }
      expect(Math.max(...perNode) - Math.min(...perNode)).toBeLessThanOrEqual(2);
    }
  });

  it('have no tag in common with another number of shards', () => {
    const tags = SHARD_COUNTS.flatMap((count) => Array.from({ length: count }, (_, shard) => tagOfShard(shard, count)));
    expect(new Set(tags.slice(0, -64)).size).toBe(63);
  });

  it('have no tag on a single Redis if there is one, and the namespace behind the tag on a cluster', () => {
    expect(shardPrefix(0, 1, false)).toBe('');
    expect(shardPrefix(0, 1, true)).toBe('{32.149}');
    expect(shardPrefix(1, 2, false)).toBe('{48.117}');
    expect(shardPrefix(0, 1, true, 'shop')).toBe('{32.149}shop:');
  });
});

describe('shardOfProduct', () => {
  const products = Array.from({ length: 6_400 }, (_, i) => `sneaker-${i}` as ProductId);

  it('spreads products evenly, also those whose names differ in the last character only', () => {
    const counts = new Map<number, number>();
    for (const product of products) {
      const shard = shardOfProduct(product, 16);
      counts.set(shard, (counts.get(shard) ?? 0) + 1);
    }
    expect(counts.size).toBe(16);
    expect(Math.max(...counts.values())).toBeLessThan(400 * 1.3);
    expect(Math.min(...counts.values())).toBeGreaterThan(400 * 0.7);
  });

  it('leaves a product in its shard or moves it to the one beside it when the number of shards doubles', () => {
    for (const product of products) expect(shardOfProduct(product, 32) >> 1).toBe(shardOfProduct(product, 16));
  });
});
