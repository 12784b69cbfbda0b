import { expect, test } from '@jest/globals';
import { Recent } from './recent.js';

test('computes once for all callers within its age, and again after it', async () => {
  let now = 0;
  let computed = 0;
  const recent = new Recent(
    async () => {
      computed += 1;
      return computed;
    },
    1_000,
    () => now,
  );
  expect(await Promise.all([recent.get(), recent.get(), recent.get()])).toEqual([1, 1, 1]);
  now = 999;
  expect(await recent.get()).toBe(1);
  now = 1_000;
  expect(await Promise.all([recent.get(), recent.get()])).toEqual([2, 2]);
});

test('shares a computation that takes longer than its age', async () => {
  let now = 0;
  let finish = (_value: number) => {};
  let computed = 0;
  const recent = new Recent(
    () => {
      computed += 1;
      return new Promise<number>((resolve) => {
        finish = resolve;
      });
    },
    1_000,
    () => now,
  );
  const first = recent.get();
  now = 5_000;
  const second = recent.get();
  finish(7);
  expect(await Promise.all([first, second])).toEqual([7, 7]);
  expect(computed).toBe(1);
});

test('does not keep a failure', async () => {
  let computed = 0;
  const recent = new Recent(async () => {
    computed += 1;
    if (computed === 1) throw new Error('away');
    return computed;
  }, 1_000);
  await expect(recent.get()).rejects.toThrow('away');
  expect(await recent.get()).toBe(2);
});
