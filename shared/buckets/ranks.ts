/**
 * The first ranks of a bucket whose numbers are known, and of the later ones each so many. The first thousand users of
 * the line may all be in one bucket. A read with 20,000 waiting users costs 0.9 ms of Redis, and with 128 ranks 0.5 ms.
 */
export const EXACT_RANKS = 1_000;
export const LATER_RANKS = 64;

/** Line numbers of a bucket in ascending order: of the first ranks, and of some later ones (lua/bucket_places.lua). */
export type BucketRanks = { waiting: number; lastLineNo: number; numbers: readonly number[] };

/** The rank of the i-th known number, from 0. */
const rankOf = (i: number) => (i < EXACT_RANKS ? i : EXACT_RANKS - 1 + (i - EXACT_RANKS + 1) * LATER_RANKS);

/**
 * How many users of a bucket have a lower number. Exact among the first ranks, estimated between later ones.
 * @returns the count, and by how many it may be wrong
 */
export function countBefore(
  { waiting, lastLineNo, numbers }: BucketRanks,
  lineNo: number,
): { before: number; error: number } {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] as number) < lineNo) low = middle + 1;
    else high = middle;
  }
  // All known numbers before `low` are lower.
  if (low === 0) return { before: 0, error: 0 };
  const least = rankOf(low - 1) + 1;
  const [from, to] = [numbers[low - 1] as number, numbers[low] ?? lastLineNo + 1];
  const most = low < numbers.length ? rankOf(low) : waiting;
  if (most <= least || to <= from) return { before: Math.min(least, waiting), error: 0 };
  const before = least + Math.min(most - least, Math.floor(((most - least) * (lineNo - from)) / (to - from)));
  return { before, error: Math.max(before - least, most - before) };
}
