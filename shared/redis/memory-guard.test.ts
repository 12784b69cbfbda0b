import { describe, expect, it } from '@jest/globals';
import { MemoryGuard, memoryHeadroom } from './memory-guard.js';

const info = (used: number, max: number) =>
  new Map([
    ['used_memory', String(used)],
    ['maxmemory', String(max)],
  ]);

describe('memoryHeadroom', () => {
  it('is the used share of the limit', () => {
    expect(memoryHeadroom(info(450, 1_000))).toEqual({ usedBytes: 450, maxBytes: 1_000, usedShare: 0.45 });
  });

  it('is 0 without a limit, and without the fields', () => {
    expect(memoryHeadroom(info(450, 0)).usedShare).toBe(0);
    expect(memoryHeadroom(new Map())).toEqual({ usedBytes: 0, maxBytes: 0, usedShare: 0 });
  });
});

describe('MemoryGuard', () => {
  it('is full above one share and has room again below a smaller one', () => {
    const changes: boolean[] = [];
    const guard = new MemoryGuard({ refuseAbove: 0.9, acceptBelow: 0.88 }, (full) => changes.push(full));
    const seen = [0.5, 0.89, 0.9, 0.901, 0.99, 0.9, 0.881, 0.88, 0.89, 0.9, 0.91].map((share) => {
      guard.observe(info(share * 1_000_000, 1_000_000));
      return guard.full;
    });
    expect(seen).toEqual([false, false, false, true, true, true, true, false, false, false, true]);
    expect(changes).toEqual([true, false, true]);
    expect(guard.headroom.usedShare).toBe(0.91);
  });

  it('has room when the limit is raised or removed', () => {
    const guard = new MemoryGuard({ refuseAbove: 0.9, acceptBelow: 0.88 });
    guard.observe(info(95, 100));
    expect(guard.full).toBe(true);
    guard.observe(info(95, 0));
    expect(guard.full).toBe(false);
  });
});
