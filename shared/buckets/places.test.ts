import { expect, it } from '@jest/globals';
import { standingData } from '../contracts/standing.js';
import type { ProductId } from '../domain/ids.js';
import type { Sales } from '../sale/sales.js';
import type { ShopperStatusOutcome } from '../sale/scripts/line.js';
import { Places } from './places.js';
import { EXACT_RANKS, LATER_RANKS } from './ranks.js';

const PRODUCT = 'half' as ProductId;

/** Two buckets whose users took numbers in turn, as they return them. */
function placesOf(users: number): Places {
  const bucket = (first: number) => {
    const all = Array.from({ length: users / 2 }, (_, i) => first + 2 * i);
    const later = (rank: number) => (rank - EXACT_RANKS + 1) % LATER_RANKS === 0;
    const numbers = all.filter((_, rank) => rank < EXACT_RANKS || later(rank));
    const found = { kind: 'places', waiting: all.length, lastLineNo: users, numbers };
    return { buckets: { places: async () => found } };
  };
  const sales = { all: () => [bucket(1), bucket(2)] } as unknown as Sales;
  return new Places(sales, { placesFreshMs: 60_000 });
}

it('says by how many places a position may be wrong, and nothing of an exact one', async () => {
  const places = placesOf(6_000);
  const errors: number[] = [];
  for (let lineNo = 1; lineNo <= 6_000; lineNo += 1) {
    const { position, positionError } = await places.at(PRODUCT, lineNo);
    expect(Math.abs(position - lineNo)).toBeLessThanOrEqual(positionError);
    errors.push(positionError);
  }
  expect(errors.slice(0, EXACT_RANKS)).toEqual(Array(EXACT_RANKS).fill(0));
  expect(Math.max(...errors)).toBeGreaterThan(0);
  expect(Math.max(...errors)).toBeLessThan(2 * LATER_RANKS);

  const standing = { kind: 'standing', status: 'queued', queueSize: 3_000, paceMs: null, presenceMs: 0, dueMs: 0 };
  const shown = async (position: number) =>
    standingData(
      (await places.ofStanding(PRODUCT, Promise.resolve({ ...standing, position } as ShopperStatusOutcome))) as never,
      false,
    );
  expect(await shown(900)).not.toHaveProperty('position_error');
  expect((await shown(5_001)).position_error).toBe(errors[5_000]);
});
