import type { Branded } from './brand.js';

/** Code of ISO 4217, known to this runtime. */
export type Currency = Branded<string, 'Currency'>;
/** Whole minor units: cents, rupiah sen, yen. Never a fraction, never below zero. */
export type MinorUnits = Branded<number, 'MinorUnits'>;
/** Hundredths of a percent, 1 to 10,000: 12.5 % are 1,250. */
export type BasisPoints = Branded<number, 'BasisPoints'>;

/** Fifteen digits: every JSON reader keeps them, and their sums and differences are exact in a double. */
export const MAX_AMOUNT = 999_999_999_999_999;
const ALL_BASIS_POINTS = 10_000n;

const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'));

/** Upper case only, as ISO 4217 writes it. */
export function isCurrency(text: string): text is Currency {
  return CURRENCIES.has(text);
}

/** Refuses fractions, negatives, what a double cannot tell apart, and what is no number at all. */
export function isAmount(value: unknown): value is MinorUnits {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_AMOUNT;
}

/**
 * A percentage as it was written, exactly: its decimal digits are read, since `1.15 * 100` is not 115.
 * @returns null when it is not above 0 and at most 100, or has more than two decimals
 */
export function basisPointsOf(percent: number): BasisPoints | null {
  const [, whole, decimals = ''] = /^(\d{1,3})(?:\.(\d{1,2}))?$/.exec(String(percent)) ?? [];
  if (whole === undefined) return null;
  const points = Number(whole + decimals.padEnd(2, '0'));
  return points >= 1 && points <= Number(ALL_BASIS_POINTS) ? (points as BasisPoints) : null;
}

/** That part of an amount, to the nearest minor unit; a half goes up, so to whom the part is given. */
export function partOf(amount: MinorUnits, points: BasisPoints): MinorUnits {
  const exact = BigInt(amount) * BigInt(points);
  return Number((exact + ALL_BASIS_POINTS / 2n) / ALL_BASIS_POINTS) as MinorUnits;
}

/** What is left of an amount; taking more than there is leaves zero. */
export function minus(amount: MinorUnits, taken: MinorUnits): MinorUnits {
  return Math.max(0, amount - taken) as MinorUnits;
}
