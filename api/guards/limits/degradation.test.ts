import { expect, test } from '@jest/globals';
import { Degradation, type SwitchedOff } from './degradation.js';

function start(atPercent = 40) {
  const load = { share: 0 };
  const changes: (readonly SwitchedOff[])[] = [];
  const degradation = new Degradation({
    atPercent,
    share: () => load.share,
    onChange: (off) => changes.push(off),
  });
  /** Looks as often as it takes to decide. */
  const look = (ms: number) => {
    for (let i = 0; i < 3; i += 1) degradation.look(ms);
  };
  return { load, degradation, changes, look };
}

test('the nearer to the limit, the more is switched off, checkouts never', () => {
  const { load, degradation, look } = start();
  const offAt = (share: number) => {
    load.share = share;
    look(0);
    return degradation.level;
  };
  expect([0, 0.39, 0.4, 0.49, 0.5, 0.59, 0.61, 1, 7].map(offAt)).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 3]);
  expect(degradation.off).toEqual(['positions', 'status', 'validate']);
});

test('one after the other is switched on again after five calm seconds each', () => {
  const { load, degradation, changes, look } = start();
  load.share = 1;
  look(0);
  load.share = 0;
  const levels = [1_000, 5_999, 6_000, 10_999, 11_000, 16_000, 30_000].map((ms) => {
    degradation.look(ms);
    return degradation.level;
  });
  expect(levels).toEqual([3, 3, 2, 2, 1, 0, 0]);
  expect(changes.map((off) => off.length)).toEqual([3, 2, 1, 0]);
});

test('a load that comes back begins the five seconds again', () => {
  const { load, degradation, look } = start();
  for (const [ms, share] of [
    [0, 0.45],
    [1_000, 0],
    [5_000, 0.45],
    [6_000, 0],
    [10_000, 0],
  ] as const) {
    load.share = share;
    look(ms);
  }
  expect(degradation.level).toBe(1);
  expect([degradation.isOff('positions'), degradation.isOff('status')]).toEqual([true, false]);
});

test('at 100 percent the first is switched off at the limit', () => {
  const { load, degradation, look } = start(100);
  const levels = [0.99, 1, 1.5].map((share) => {
    load.share = share;
    look(0);
    return degradation.level;
  });
  expect(levels).toEqual([0, 1, 3]);
});

test('one or two looks switch nothing off', () => {
  const { load, degradation } = start();
  const levels = [1, 1, 0, 1, 1, 1].map((share) => {
    load.share = share;
    degradation.look(0);
    return degradation.level;
  });
  expect(levels).toEqual([0, 0, 0, 0, 0, 3]);
});
