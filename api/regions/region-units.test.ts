import { expect, test } from '@jest/globals';
import type { Stock } from '../../shared/domain/campaign.js';
import { RegionUnits } from './region-units.js';

const STOCK: Stock = { status: 'open', total: 10, free: 0, held: 0, redeemed: 10, burned: 0, waiting: 0 };

test('Postgres is asked for the pace of campaigns that may sell, and of no other', async () => {
  const stocks: Record<string, Stock | null> = {
    selling: { ...STOCK, free: 1, redeemed: 9 },
    reserved: { ...STOCK, held: 1, redeemed: 9 },
    unlimited: { ...STOCK, total: null, free: null },
    'sold-out': STOCK,
    paused: { ...STOCK, status: 'paused', free: 1, redeemed: 9 },
    unknown: null,
  };
  const units = new RegionUnits(
    { find: async (product: string) => ({ id: product }) } as never,
    { stock: async (product: string) => stocks[product] ?? null } as never,
    { summary: async () => ({ recent: 20 }) } as never,
  );
  const found = await units.of(Object.keys(stocks));
  expect(found.map(({ product_id, confirmed_per_second }) => [product_id, confirmed_per_second])).toEqual([
    ['selling', 2],
    ['reserved', 2],
    ['unlimited', 2],
    ['sold-out', 0],
    ['paused', 0],
  ]);
});
