import type { Branded } from './brand.js';

/** An ISO 4217 code that this runtime knows. */
export type Currency = Branded<string, 'Currency'>;
/** Whole minor units: cents, rupiah sen, yen. Never a fraction, never below zero. */
export type MinorUnits = Branded<number, 'MinorUnits'>;
/** Hundredths of a percent, 1 to 10,000: 12.5 % is 1,250. */
export type BasisPoints = Branded<number, 'BasisPoints'>;

/** Fifteen digits: every JSON parser keeps them, and their sums and differences are exact in a double. */
export const MAX_AMOUNT = 999_999_999_999_999;
const ALL_BASIS_POINTS = 10_000n;

const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'));

/** Whether the text is a currency code. Upper case only, as in ISO 4217. */
export function isCurrency(text: string): text is Currency {
  return CURRENCIES.has(text);
}

/** Currencies whose minor unit is not a hundredth, with the digits of ISO 4217. `Intl` has those that people write. */
const MINOR_DIGITS: Readonly<Record<number, string>> = {
  0: 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF',
  3: 'BHD IQD JOD KWD LYD OMR TND',
  4: 'CLF UYW',
};

/** How many digits of an amount in minor units are behind the point. */
export function minorDigits(currency: string): number {
  const found = Object.entries(MINOR_DIGITS).find(([, currencies]) => currencies.split(' ').includes(currency));
  return found ? Number(found[0]) : 2;
}

/** Whether the value is a whole amount from 0 to MAX_AMOUNT. */
export function isAmount(value: unknown): value is MinorUnits {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_AMOUNT;
}

/**
 * Converts a percentage to basis points, exactly. Reads its decimal digits, because `1.15 * 100` is not exactly 115.
 * @returns null when the percentage is not above 0 and at most 100, or has more than two decimals
 */
export function basisPointsOf(percent: number): BasisPoints | null {
  const [, whole, decimals = ''] = /^(\d{1,3})(?:\.(\d{1,2}))?$/.exec(String(percent)) ?? [];
  if (whole === undefined) return null;
  const points = Number(whole + decimals.padEnd(2, '0'));
  return points >= 1 && points <= Number(ALL_BASIS_POINTS) ? (points as BasisPoints) : null;
}

/**
 * The given part of an amount, rounded to the nearest minor unit. Halves are rounded up, in favour of the shopper who
 * gets the discount.
 */
export function partOf(amount: MinorUnits, points: BasisPoints): MinorUnits {
  const exact = BigInt(amount) * BigInt(points);
  return Number((exact + ALL_BASIS_POINTS / 2n) / ALL_BASIS_POINTS) as MinorUnits;
}

/** Subtracts; the result is never below zero. */
export function minus(amount: MinorUnits, taken: MinorUnits): MinorUnits {
  return Math.max(0, amount - taken) as MinorUnits;
}

/**
 * Converts a typed price in major units, such as `19.90`, to minor units, exactly.
 * @returns null when the text is no number with a point, or has more decimals than the currency
 */
export function minorUnitsIn(text: string, currency: string): number | null {
  const digits = minorDigits(currency);
  const [, whole, decimals = ''] = /^(\d+)(?:\.(\d+))?$/.exec(text) ?? [];
  return whole === undefined || decimals.length > digits ? null : Number(whole + decimals.padEnd(digits, '0'));
}

/** Returns an amount in minor units as a price in major units for an input: 1990 in EUR is `19.90`. */
export function majorText(amount: number, currency: string): string {
  const digits = minorDigits(currency);
  if (digits === 0) return String(amount);
  const text = String(amount).padStart(digits + 1, '0');
  return `${text.slice(0, -digits)}.${text.slice(-digits)}`;
}
