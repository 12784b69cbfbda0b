/** The state of a bucket at the beginning of a round. */
export type RoundBucket = {
  free: number;
  /** Codes of a pool that the bucket can give; null = its units need no code, or it cannot be reached. */
  codes: number | null;
  /** Users in its line. */
  waiting: number;
  /** The first users of its line, in their order. `qty` 0: the user needs no unit, and the place ends. */
  heads: readonly { lineNo: number; qty: number }[];
};
export type Stock = Pick<RoundBucket, 'free' | 'codes'>;
/** Units and codes that leave a bucket for another one, in any numbers. `codes`: 0 unless the campaign is a pool. */
export type Move = { from: number; to: number; units: number; codes: number };
/** `upTo`: the last line number that is served without a transfer; null = none. */
export type Round = { upTo: number | null; moves: Move[] };

/** What the buckets can give together once units and codes have moved to each other. */
export function givable(buckets: readonly Stock[]): number {
  const free = sumOf(buckets.map((bucket) => bucket.free));
  return isPool(buckets) ? Math.min(free, sumOf(buckets.map(({ codes }) => codes ?? 0))) : free;
}

/**
 * Assigns the free units of all buckets to the lowest line numbers. A user who needs more units than are left keeps the
 * others waiting. In a pool each unit needs a code, which may be in another bucket: units and codes move independently
 * of each other. It is a pure function; a round that was planned on older states does no harm, because a bucket
 * promotes at most up to the number and only while it has units and codes.
 */
export function planRound(buckets: readonly RoundBucket[]): Round {
  const own = ownOf(buckets);
  let left = givable(buckets);
  const needed = buckets.map(() => 0);
  let upTo: number | null = null;
  let isLocal = true;
  for (const { bucket, lineNo, qty } of headsOf(buckets)) {
    if (qty > left) break;
    left -= qty;
    needed[bucket] = (needed[bucket] ?? 0) + qty;
    // The first user who needs a transfer ends what is served at once, so that no later number is served before.
    isLocal &&= (needed[bucket] ?? 0) <= (own[bucket] ?? 0);
    if (isLocal) upTo = lineNo;
  }
  const surplus = (stock: readonly number[]) => stock.map((one, bucket) => one - (needed[bucket] ?? 0));
  const units = movesOf(surplus(buckets.map(({ free }) => free)));
  const codes = isPool(buckets) ? movesOf(surplus(buckets.map((bucket) => bucket.codes ?? 0))) : [];
  return { upTo, moves: together(units, codes) };
}

/** Codes that one fetch moves at most, because the journal and Postgres have their numbers. */
const MAX_FETCHED_CODES = 1_000;

/**
 * Plans how a bucket without a line gets units from the others, with as many codes in a pool: half of what the richest
 * one has, so that the next users of the bucket find some too. When units and codes are nowhere together, codes move to
 * units, whichever bucket asks. So two buckets never exchange their last ones for ever.
 * @param wanted units. @returns here: the bucket has them; nothing: all buckets together do not
 */
export function planFetch(buckets: readonly Stock[], to: number, wanted: number): Move | 'here' | 'nothing' {
  const own = ownOf(buckets);
  if ((own[to] ?? 0) >= wanted) return 'here';
  const from = indexOfMost(own.map((units, bucket) => (bucket === to ? 0 : units)));
  const richest = from === to ? 0 : (own[from] ?? 0);
  if (richest > 0 && sumOf(own) >= wanted) {
    const most = isPool(buckets) ? MAX_FETCHED_CODES : Number.POSITIVE_INFINITY;
    const units = Math.min(richest, most, Math.max(wanted - (own[to] ?? 0), Math.ceil(richest / 2)));
    return { from, to, units, codes: isPool(buckets) ? units : 0 };
  }
  if (!isPool(buckets) || givable(buckets) < wanted) return 'nothing';
  const free = buckets.map((bucket, i) => bucket.free - (own[i] ?? 0));
  const codes = buckets.map((bucket, i) => (bucket.codes ?? 0) - (own[i] ?? 0));
  const [units, most] = [indexOfMost(free), indexOfMost(codes)];
  const moved = Math.min(free[units] ?? 0, codes[most] ?? 0, MAX_FETCHED_CODES);
  return { from: most, to: units, units: 0, codes: moved };
}

/** What each bucket can give by itself. */
const ownOf = (buckets: readonly Stock[]) =>
  buckets.map(({ free, codes }) => (isPool(buckets) ? Math.min(free, codes ?? 0) : free));
const indexOfMost = (numbers: readonly number[]) => numbers.indexOf(Math.max(...numbers));
const isPool = (buckets: readonly Stock[]) => buckets.some(({ codes }) => codes !== null);
const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0);

/** The first users of all lines by line number, as far as the numbers of every bucket are known. */
function headsOf(buckets: readonly RoundBucket[]): { bucket: number; lineNo: number; qty: number }[] {
  let horizon = Number.POSITIVE_INFINITY;
  for (const { waiting, heads } of buckets)
    if (heads.length < waiting) horizon = Math.min(horizon, heads.at(-1)?.lineNo ?? 0);
  return buckets
    .flatMap(({ heads }, bucket) => heads.map((head) => ({ bucket, ...head })))
    .filter(({ lineNo }) => lineNo <= horizon)
    .sort((a, b) => a.lineNo - b.lineNo);
}

type Flow = { from: number; to: number; amount: number };

/** Moves from buckets with a surplus to those with a deficit (negative), the largest ones first. */
function movesOf(surplus: number[]): Flow[] {
  const moves: Flow[] = [];
  const extreme = (better: (a: number, b: number) => boolean) =>
    surplus.reduce((best, one, bucket) => (better(one, surplus[best] ?? 0) ? bucket : best), 0);
  for (;;) {
    const from = extreme((a, b) => a > b);
    const to = extreme((a, b) => a < b);
    const amount = Math.min(surplus[from] ?? 0, -(surplus[to] ?? 0));
    if (amount <= 0) return moves;
    moves.push({ from, to, amount });
    surplus[from] = (surplus[from] ?? 0) - amount;
    surplus[to] = (surplus[to] ?? 0) + amount;
  }
}

/** Units and codes with the same way make one transfer. */
function together(units: readonly Flow[], codes: readonly Flow[]): Move[] {
  const moves = new Map<string, Move>();
  const moveOf = ({ from, to }: Flow): Move => {
    const move = moves.get(`${from}>${to}`) ?? { from, to, units: 0, codes: 0 };
    moves.set(`${from}>${to}`, move);
    return move;
  };
  for (const flow of units) moveOf(flow).units += flow.amount;
  for (const flow of codes) moveOf(flow).codes += flow.amount;
  return [...moves.values()];
}
