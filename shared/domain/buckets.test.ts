import { describe, expect, it } from '@jest/globals';
import slotOf from 'cluster-key-slot';
import fc from 'fast-check';
import {
  bucketOfNumber,
  bucketOfReservation,
  bucketOfShard,
  bucketOfUser,
  campaignOfNumber,
  homeCodes,
  MAX_BUCKETS,
  numberOfBucket,
  shardOfBucket,
  splitUnits,
} from './buckets.js';
import { newReservationPrefix, parseReservationId, reservationIdOf, type UserId } from './ids.js';
import { MAX_REGIONS, ownerOfCampaignNo, type RegionName } from './regions.js';
import { SLOTS, tagOfShard } from './shards.js';

const user = (i: number) => `user-${i}` as UserId;

describe('bucketOfUser', () => {
  it('spreads users evenly, and does not change', () => {
    const counts = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 10_000; i += 1)
      counts[bucketOfUser(user(i), 10)] = (counts[bucketOfUser(user(i), 10)] ?? 0) + 1;
    expect(Math.min(...counts)).toBeGreaterThan(850);
    expect(Math.max(...counts)).toBeLessThan(1_150);
    expect([bucketOfUser(user(1), 10), bucketOfUser(user(2), 10), bucketOfUser(user(3), 1)]).toEqual([
      bucketOfUser(user(1), 10),
      bucketOfUser(user(2), 10),
      0,
    ]);
  });
});

describe('the number of a bucket', () => {
  it('contains campaign and bucket, also in a reservation id, and is the campaign’s for bucket 0', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2 ** 23 - 1 }),
        fc.integer({ min: 0, max: MAX_REGIONS - 1 }),
        fc.integer({ min: 0, max: MAX_BUCKETS - 1 }),
        (counted, region, bucket) => {
          const no = region * 2 ** 27 + counted;
          const number = numberOfBucket(no, bucket);
          expect([campaignOfNumber(number), bucketOfNumber(number)]).toEqual([no, bucket]);
          // The column in Postgres and the arithmetic of scripts have 31 bits.
          expect(number).toBeLessThan(2 ** 31);
          const names = Array.from({ length: MAX_REGIONS }, (_, i) => `region-${i}` as RegionName);
          expect(ownerOfCampaignNo(number, { names, prefixes: [] })).toBe(names[region]);
          const id = reservationIdOf(newReservationPrefix(), number);
          expect([bucketOfReservation(id), parseReservationId(id)?.campaignNo]).toEqual([bucket, number]);
        },
      ),
    );
    expect(numberOfBucket(7, 0)).toBe(7);
  });
});

describe('shardOfBucket', () => {
  it('puts the buckets of a campaign into different shards, and finds them there', () => {
    for (const shards of [2, 4, 8, 16, 64]) {
      for (let buckets = 1; buckets <= Math.min(shards, MAX_BUCKETS); buckets += 1) {
        const home = (7 * buckets) % shards;
        const found = Array.from({ length: shards }, (_, shard) => bucketOfShard(home, shard, buckets, shards));
        const places = Array.from({ length: buckets }, (_, bucket) => shardOfBucket(home, bucket, buckets, shards));
        expect(new Set(places).size).toBe(buckets);
        expect(places.map((shard) => found[shard])).toEqual(Array.from({ length: buckets }, (_, bucket) => bucket));
        expect(found.filter((bucket) => bucket !== null).length).toBe(buckets);
        expect(places[0]).toBe(home);
      }
    }
  });

  it('spreads ten buckets over three nodes, so that none has more than half of them', () => {
    for (let home = 0; home < 16; home += 1) {
      const perNode = [0, 0, 0];
      for (let bucket = 0; bucket < 10; bucket += 1) {
        const node = Math.floor((slotOf(`{${tagOfShard(shardOfBucket(home, bucket, 10, 16), 16)}}`) * 3) / SLOTS);
        perNode[node] = (perNode[node] ?? 0) + 1;
      }
      expect(Math.max(...perNode)).toBeLessThanOrEqual(4);
    }
  });
});

describe('splitUnits', () => {
  it('loses no unit', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2_000_000_000 }),
        fc.integer({ min: 1, max: MAX_BUCKETS }),
        (total, buckets) => {
          const parts = splitUnits(total, buckets).map(Number);
          expect(parts.reduce((sum, units) => sum + units, 0)).toBe(total);
          expect((parts[0] ?? 0) - Math.min(...parts)).toBeLessThan(buckets);
        },
      ),
    );
    expect(splitUnits(null, 2)).toEqual([null, null]);
    expect(splitUnits(2, 3)).toEqual([2, 0, 0]);
  });
});

describe('homeCodes', () => {
  it('counts each code in one bucket', () => {
    for (const buckets of [1, 2, 7, 16])
      for (const codes of [0, 1, 15, 16, 100]) {
        const counts = Array.from({ length: buckets }, (_, bucket) => homeCodes(codes, bucket, buckets));
        expect(counts.reduce((sum, count) => sum + count, 0)).toBe(codes);
        expect(counts).toEqual(counts.toSorted((a, b) => b - a));
      }
  });
});
