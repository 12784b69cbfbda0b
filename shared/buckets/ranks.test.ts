import { expect, it } from '@jest/globals';
import { countBefore, EXACT_RANKS, LATER_RANKS } from './ranks.js';

/** The numbers that a bucket with these users returns. */
function ranksOf(users: readonly number[]) {
  const later = (rank: number) => rank >= EXACT_RANKS && (rank - EXACT_RANKS + 1) % LATER_RANKS === 0;
  return {
    waiting: users.length,
    lastLineNo: users.at(-1) ?? 0,
    numbers: users.filter((_, rank) => rank < EXACT_RANKS || later(rank)),
  };
}

it('is exact for the first ranks, and off by less than a step for later ones', () => {
  let seed = 7;
  const users: number[] = [];
  for (let number = 1; number <= 30_000; number += 1) {
    seed = (seed * 48_271) % 2_147_483_647;
    if (seed % 10 === 0) users.push(number);
  }
  const ranks = ranksOf(users);
  for (const [rank, number] of users.entries()) {
    const { before, error } = countBefore(ranks, number);
    expect(Math.abs(before - rank)).toBeLessThanOrEqual(error);
    expect(error).toBeLessThan(rank < EXACT_RANKS ? 1 : LATER_RANKS);
  }
  expect(countBefore(ranks, 40_000)).toMatchObject({ before: users.length });
  expect(countBefore(ranks, 0)).toEqual({ before: 0, error: 0 });
});

it('is exact for the first thousand users when all are in one bucket', () => {
  const users = Array.from({ length: 5_000 }, (_, rank) => rank * 3 + 500 * Math.floor(rank / 100));
  const ranks = ranksOf(users);
  const exact = users.filter((number, rank) => countBefore(ranks, number).before === rank);
  expect(exact.slice(0, 1_000)).toEqual(users.slice(0, 1_000));
});

it('counts nobody in an empty bucket', () => {
  expect(countBefore({ waiting: 0, lastLineNo: 5, numbers: [] }, 3)).toEqual({ before: 0, error: 0 });
});
