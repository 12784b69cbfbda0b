import { expect, test } from '@jest/globals';
import type { Stock } from '../../shared/domain/campaign.js';
import { RegionUnits } from './region-units.js';

const STOCK: Stock = { status: 'open', total: 10, free: 0, held: 0, redeemed: 10, burned: 0, waiting: 0 };

test('Postgres is asked for the pace of campaigns that may sell, and Redis for a head of the line that wants more', async () => {
  const stocks: Record<string, Stock | null> = {
    selling: { ...STOCK, free: 1, redeemed: 9 },
    reserved: { ...STOCK, held: 1, redeemed: 9 },
    unlimited: { ...STOCK, total: null, free: null },
    'sold-out': STOCK,
    paused: { ...STOCK, status: 'paused', free: 1, redeemed: 9 },
    group: { ...STOCK, free: 2, waiting: 1 },
    away: { ...STOCK, free: 2, waiting: 1 },
    unknown: null,
  };
  const head = async (product: string) => ({
    kind: 'line',
    reason: product === 'away' ? 'nobody_there' : 'head_wants_more',
    head: [
      { away: true, qty: 9 },
      { away: false, qty: 3 },
    ],
  });
  const units = new RegionUnits(
    { find: async (product: string) => ({ id: product }) } as never,
    { stock: async (product: string) => stocks[product] ?? null, of: () => ({ line: { head } }) } as never,
    { summary: async () => ({ recent: 20 }) } as never,
  );
  const found = await units.of(Object.keys(stocks));
  expect(
    found.map(({ product_id, confirmed_per_second, head_qty }) => [product_id, confirmed_per_second, head_qty]),
  ).toEqual([
    ['selling', 2, null],
    ['reserved', 2, null],
    ['unlimited', 2, null],
    ['sold-out', 0, null],
    ['paused', 0, null],
    ['group', 2, 3],
    ['away', 2, null],
  ]);
  expect(found.filter(({ nobody_there }) => nobody_there)).toMatchObject([{ product_id: 'away' }]);
});
