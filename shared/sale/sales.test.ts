import { expect, test } from '@jest/globals';
import type { CampaignNo, ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import type { SaleStore } from './sale-store.js';
import { Sales } from './sales.js';

const NO = 7 as CampaignNo;
const found = { reader: { productOf: async () => 'sneaker-42' as ProductId } } as unknown as SaleStore;
const lacks = { reader: { productOf: async () => null } } as unknown as SaleStore;
const away = { reader: { productOf: async () => Promise.reject(new Error('timeout')) } } as unknown as SaleStore;
const map = { shardOf: () => 0, bucketsOf: () => 1, bucketOf: () => 0, dividedId: () => null };
const productIn = (...stores: SaleStore[]) => new Sales(stores, map).productOf(NO);

test('a number is unknown only if every shard says so: a payment into a shard that is away must be repeated', async () => {
  expect(await productIn(lacks, found)).toBe('sneaker-42');
  expect(await productIn(away, found)).toBe('sneaker-42');
  expect(await productIn(lacks, lacks)).toBe(null);
  await expect(productIn(lacks, away)).rejects.toThrow(EngineUnavailable);
});
