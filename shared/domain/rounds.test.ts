import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { planFetch, planRound, type RoundBucket } from './rounds.js';

const bucket = (free: number, ...numbers: number[]) => ({
  free,
  codes: null,
  waiting: numbers.length,
  heads: numbers.map((lineNo) => ({ lineNo, qty: 1 })),
});

describe('planRound', () => {
  it('serves the lowest numbers where the units are', () => {
    expect(planRound([bucket(1, 1, 4), bucket(1, 2, 3)])).toEqual({ upTo: 2, moves: [] });
  });

  it('moves units to the users with the lowest numbers, and serves no later number before', () => {
    expect(planRound([bucket(3, 2, 9), bucket(0, 1, 3), bucket(0, 4)])).toEqual({
      upTo: null,
      moves: [{ from: 0, to: 1, units: 2, codes: 0 }],
    });
    expect(planRound([bucket(2, 1, 9), bucket(0, 2)])).toEqual({
      upTo: 1,
      moves: [{ from: 0, to: 1, units: 1, codes: 0 }],
    });
  });

  it('moves nothing when nobody waits or no unit is free', () => {
    expect(planRound([bucket(5), bucket(0)])).toEqual({ upTo: null, moves: [] });
    expect(planRound([bucket(0, 1), bucket(0, 2)])).toEqual({ upTo: null, moves: [] });
  });

  it('keeps units for a group that needs more than are left', () => {
    const group = {
      free: 1,
      codes: null,
      waiting: 2,
      heads: [
        { lineNo: 1, qty: 3 },
        { lineNo: 5, qty: 1 },
      ],
    };
    expect(planRound([group, bucket(1, 2)])).toEqual({ upTo: null, moves: [] });
    expect(planRound([group, bucket(2, 2)])).toEqual({ upTo: null, moves: [{ from: 1, to: 0, units: 2, codes: 0 }] });
  });

  it('goes no further than the numbers of every bucket are known', () => {
    const long = { free: 0, codes: null, waiting: 100, heads: [{ lineNo: 3, qty: 1 }] };
    expect(planRound([long, bucket(5, 4, 5)])).toEqual({ upTo: null, moves: [{ from: 1, to: 0, units: 1, codes: 0 }] });
    expect(planRound([{ free: 0, codes: null, waiting: 100, heads: [] }, bucket(5, 4, 5)])).toEqual({
      upTo: null,
      moves: [],
    });
  });

  it('gives each free unit to the lowest number that needs it', () => {
    const one = fc.record({ free: fc.integer({ min: 0, max: 6 }), count: fc.integer({ min: 0, max: 6 }) });
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 16 }), fc.integer(), (given, seed) => {
        const numbers = given.flatMap(({ count }, i) => Array.from({ length: count }, (_, n) => [i, n]));
        const order = numbers.map((_, i) => ((i * 7919 + (seed % 997)) >>> 0) % 100_003);
        const ranks = order.map((value, i) => [value, i] as const).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
        const lines: number[][] = given.map(() => []);
        for (const [rank, [, i]] of ranks.entries()) lines[numbers[i]?.[0] ?? 0]?.push(rank + 1);
        const state = given.map(({ free }, i) => bucket(free, ...(lines[i] ?? [])));
        const { upTo, moves } = planRound(state);
        const total = given.reduce((sum, { free }) => sum + free, 0);
        const cut = Math.min(total, numbers.length);
        const after = given.map(({ free }) => free);
        for (const { from, to, units } of moves) {
          after[from] = (after[from] ?? 0) - units;
          after[to] = (after[to] ?? 0) + units;
        }
        // Each bucket has the units for its users among the first `cut`, and no unit was moved that none of them needs.
        for (const [i, line] of lines.entries()) {
          const served = line.filter((lineNo) => lineNo <= cut).length;
          expect(after[i]).toBeGreaterThanOrEqual(served);
          expect((after[i] ?? 0) - (given[i]?.free ?? 0)).toBeLessThanOrEqual(
            Math.max(0, served - (given[i]?.free ?? 0)),
          );
        }
        expect(after.reduce((sum, units) => sum + units, 0)).toBe(total);
        expect(upTo ?? 0).toBeLessThanOrEqual(cut);
        if (moves.length === 0 && cut > 0) expect(upTo).toBe(cut);
      }),
    );
  });
});

/** A bucket of a pool. */
const pool = (free: number, codes: number, ...numbers: number[]): RoundBucket => ({
  ...bucket(free, ...numbers),
  codes,
});

describe('planRound of a pool', () => {
  it('serves a user at once only where the unit and the code are', () => {
    expect(planRound([pool(1, 1, 1), pool(1, 0, 2), pool(0, 1)])).toEqual({
      upTo: 1,
      moves: [{ from: 2, to: 1, units: 0, codes: 1 }],
    });
  });

  it('moves units and codes together where they have the same way', () => {
    expect(planRound([pool(2, 3), pool(0, 0, 1, 2)])).toEqual({
      upTo: null,
      moves: [{ from: 0, to: 1, units: 2, codes: 2 }],
    });
    expect(planRound([pool(2, 0), pool(0, 0, 1), pool(0, 5)])).toEqual({
      upTo: null,
      moves: [
        { from: 0, to: 1, units: 1, codes: 0 },
        { from: 2, to: 1, units: 0, codes: 1 },
      ],
    });
  });

  it('gives no more than there are codes, and nothing of a bucket that cannot be reached', () => {
    expect(planRound([pool(3, 1, 1, 2), pool(0, 0)])).toEqual({ upTo: 1, moves: [] });
    expect(planRound([bucket(0), pool(3, 0, 1)])).toEqual({ upTo: null, moves: [] });
  });

  it('leaves no unit and code unused while a user waits', () => {
    const one = fc.record({
      ...{ free: fc.integer({ min: 0, max: 6 }), codes: fc.integer({ min: 0, max: 6 }) },
      lines: fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { maxLength: 6 }),
    });
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 16 }), (given) => {
        const seen = new Set<number>();
        const state = given.map(({ free, codes, lines }) => {
          const own = lines.filter((no) => !seen.has(no) && seen.add(no)).sort((a, b) => a - b);
          return pool(free, codes, ...own);
        });
        const sum = (name: 'free' | 'codes') => state.reduce((total, stock) => total + Number(stock[name]), 0);
        const served = [...seen].sort((a, b) => a - b).slice(0, Math.min(sum('free'), sum('codes')));
        const { moves } = planRound(state);
        const after = state.map(({ free, codes }) => ({ free, codes: Number(codes) }));
        for (const { from, to, units, codes } of moves) {
          expect(units + codes).toBeGreaterThan(0);
          for (const [bucket, sign] of [[from, -1] as const, [to, 1] as const]) {
            const stock = after[bucket] as (typeof after)[number];
            stock.free += sign * units;
            stock.codes += sign * codes;
          }
        }
        for (const [i, { heads }] of state.entries()) {
          const needed = heads.filter(({ lineNo }) => served.includes(lineNo)).length;
          expect(Math.min(after[i]?.free ?? 0, after[i]?.codes ?? 0)).toBeGreaterThanOrEqual(needed);
        }
      }),
    );
  });
});

describe('planFetch', () => {
  const stock = (free: number, codes: number | null = null) => ({ free, codes });

  it('takes half of what the richest bucket has, with its codes', () => {
    expect(planFetch([stock(0), stock(3), stock(9)], 0, 1)).toEqual({ from: 2, to: 0, units: 5, codes: 0 });
    expect(planFetch([stock(0, 4), stock(9, 2), stock(4, 5)], 0, 1)).toEqual({ from: 2, to: 0, units: 2, codes: 2 });
    expect(planFetch([stock(0, 0), stock(9_000, 9_000)], 0, 1)).toMatchObject({ units: 1_000, codes: 1_000 });
  });

  it('takes nothing when the bucket has units, or no bucket has any', () => {
    expect(planFetch([stock(1), stock(9)], 0, 1)).toBe('here');
    expect(planFetch([stock(0), stock(0)], 0, 1)).toBe('nothing');
    expect(planFetch([stock(5, 0), stock(0, 0)], 1, 1)).toBe('nothing');
  });

  it('moves codes to units when they are in different buckets, whichever bucket asks', () => {
    const apart = [stock(1, 0), stock(4, 0), stock(0, 3)];
    for (const to of [0, 1, 2]) expect(planFetch(apart, to, 1)).toEqual({ from: 2, to: 1, units: 0, codes: 3 });
  });
});
