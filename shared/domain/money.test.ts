import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type BasisPoints,
  basisPointsOf,
  isAmount,
  isCurrency,
  MAX_AMOUNT,
  type MinorUnits,
  majorText,
  minorDigits,
  minorUnitsIn,
  minus,
  partOf,
} from './money.js';

const part = (amount: number, percent: number) => partOf(amount as MinorUnits, basisPointsOf(percent) as BasisPoints);
const amounts = fc.oneof(fc.integer({ min: 0, max: 10_000 }), fc.integer({ min: 0, max: MAX_AMOUNT }));

test('reads every percentage of two decimals exactly', () => {
  for (let points = 1; points <= 10_000; points += 1) {
    const percent = Number(`${Math.trunc(points / 100)}.${String(points % 100).padStart(2, '0')}`);
    expect([percent, basisPointsOf(percent)]).toEqual([percent, points]);
  }
});

test('rejects percentages that are not positive, above 100 or too precise', () => {
  for (const percent of [0, -0, -1, 100.01, 101, 1e21, 0.001, 12.345, 1e-7, Number.NaN, Number.POSITIVE_INFINITY]) {
    expect([percent, basisPointsOf(percent)]).toEqual([percent, null]);
  }
});

test('takes a part to the nearest minor unit, halves up', () => {
  const expected: [number, number, number][] = [
    [1_000, 12.5, 125],
    [1_001, 12.5, 125],
    [1_004, 12.5, 126],
    [99, 50, 50],
    [1, 50, 1],
    [1, 49.99, 0],
    [4, 12.5, 1],
    [3, 12.5, 0],
    [1_999, 33.33, 666],
    [29, 1.15, 0],
    [10_000, 1.15, 115],
    [MAX_AMOUNT, 100, MAX_AMOUNT],
    [MAX_AMOUNT, 33.33, 333_300_000_000_000],
    [0, 100, 0],
  ];
  for (const [amount, percent, taken] of expected)
    expect([amount, percent, part(amount, percent)]).toEqual([amount, percent, taken]);
});

test('a part is nearer to the exact one than any other whole number, and no larger than the whole', () => {
  fc.assert(
    fc.property(amounts, fc.integer({ min: 1, max: 10_000 }), (amount, points) => {
      const taken = partOf(amount as MinorUnits, points as BasisPoints);
      const twiceOff = 2n * (BigInt(taken) * 10_000n - BigInt(amount) * BigInt(points));
      expect(twiceOff > -10_000n && twiceOff <= 10_000n && taken <= amount && isAmount(taken)).toBe(true);
    }),
  );
});

test('never leaves less than nothing', () => {
  fc.assert(
    fc.property(amounts, amounts, (amount, taken) => {
      const left = minus(amount as MinorUnits, taken as MinorUnits);
      expect(left).toBe(taken > amount ? 0 : amount - taken);
    }),
  );
});

test('accepts whole amounts that are exact everywhere, and nothing else', () => {
  for (const amount of [0, 1, MAX_AMOUNT]) expect([amount, isAmount(amount)]).toEqual([amount, true]);
  for (const amount of [-1, 0.5, 1e15, 1e300, Number.NaN, Number.POSITIVE_INFINITY, '1', null, undefined, 1n, {}]) {
    expect([String(amount), isAmount(amount)]).toEqual([String(amount), false]);
  }
});

test('accepts the currencies of the world by their codes', () => {
  for (const code of ['EUR', 'USD', 'IDR', 'JPY', 'SGD', 'MYR', 'BRL', 'KWD'])
    expect([code, isCurrency(code)]).toEqual([code, true]);
  for (const code of ['', 'eur', 'EURO', 'ABC', 'BTC', 'constructor', '__proto__'])
    expect([code, isCurrency(code)]).toEqual([code, false]);
});

test('has the digits of ISO 4217 for each currency', () => {
  expect(['EUR', 'IDR', 'JPY', 'KWD', 'CLF'].map(minorDigits)).toEqual([2, 2, 0, 3, 4]);
});

test('reads typed prices by the digits of the currency', () => {
  const read = [
    ['19.90', 'EUR', 1990],
    ['19.9', 'EUR', 1990],
    ['49', 'EUR', 4900],
    ['0.29', 'USD', 29],
    ['1500', 'JPY', 1500],
    ['1.234', 'KWD', 1234],
    ['1500.5', 'JPY', null],
    ['19.901', 'EUR', null],
    ['19,90', 'EUR', null],
    ['1 990', 'EUR', null],
    ['-1', 'EUR', null],
    ['', 'EUR', null],
  ] as const;
  for (const [text, currency, amount] of read) expect([text, minorUnitsIn(text, currency)]).toEqual([text, amount]);
});

test('writes each amount as the price that is read as this amount', () => {
  expect(majorText(5, 'EUR')).toBe('0.05');
  fc.assert(
    fc.property(amounts, fc.constantFrom('EUR', 'JPY', 'KWD', 'CLF'), (amount, currency) => {
      expect(minorUnitsIn(majorText(amount, currency), currency)).toBe(amount);
    }),
  );
});
