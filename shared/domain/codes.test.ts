import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type Code, checkTypo, drawCodes, GUESS_ODDS, hasCheckCharacter, normaliseCode, symbolsFor } from './codes.js';

const SYMBOLS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const ALPHABET = '23456789ABCDEFGHJKMNPQRSTVWXYZ';
const FORM = { prefix: 'SALE', symbols: 12 };
const canonical = (text: string) => {
  const result = normaliseCode(text);
  return result.kind === 'code' ? result.code : result.kind;
};

describe('normaliseCode', () => {
  test.each([
    ['indo99', 'INDO99'],
    ['INDO-99', 'INDO99'],
    [' in do\u00a0-\u201199 ', 'INDO99'],
    ['0o1iLu', '0O1ILU'],
    ['A', 'A'],
    ['A'.repeat(64), 'A'.repeat(64)],
    ['A-'.repeat(64), 'A'.repeat(64)],
  ])('takes what somebody may type (case %#)', (text, code) => expect(canonical(text)).toBe(code));

  test.each([
    ['', 'empty'],
    [' - ', 'empty'],
    ['A'.repeat(65), 'too_long'],
    ['-'.repeat(129), 'too_long'],
    ['A'.repeat(10_000), 'too_long'],
    ['САLЕ', 'bad_character'],
    ['ＡＢＣ', 'bad_character'],
    ['ßA', 'bad_character'],
    ['ıſ\u212a', 'bad_character'],
    ['٣٤', 'bad_character'],
    ['AB\tC', 'bad_character'],
    ['ABC\n', 'bad_character'],
    ['AB\u0000', 'bad_character'],
    ['A_B', 'bad_character'],
    ['A\ud800B', 'bad_character'],
    ['A\u200bB', 'bad_character'],
  ])('refuses what is no code (case %#)', (text, reason) => expect(canonical(text)).toBe(reason));

  test('is done once: a canonical code is its own canonical form, whatever was typed', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 140 }), (text) => {
        const once = normaliseCode(text);
        if (once.kind !== 'code') return;
        expect(once.code).toMatch(/^[A-Z0-9]{1,64}$/);
        expect(normaliseCode(once.code.toLowerCase())).toEqual(once);
      }),
    );
  });
});

describe('generated codes', () => {
  test('have their form, the alphabet, a check character and an even spread', () => {
    const codes = drawCodes(20_000, FORM);
    expect(codes).toHaveLength(20_000);
    expect(new Set(codes).size).toBe(20_000);
    const counts = new Map<string, number>();
    for (const code of codes) {
      if (!/^SALE[2-9A-HJKMNP-TV-Z]{12}$/.test(code) || !hasCheckCharacter(code)) throw new Error(`drawn: ${code}`);
      for (const symbol of code.slice(4, -1)) counts.set(symbol, (counts.get(symbol) ?? 0) + 1);
    }
    expect([...counts.keys()].sort().join('')).toBe(ALPHABET);
    // Chi-square over 29 degrees of freedom: beyond 80 once in a million runs.
    const expected = (20_000 * 11) / 30;
    const spread = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    expect(spread).toBeLessThan(80);
  });

  test('detect every single wrong character and every exchange of two within 36 places', () => {
    for (const code of drawCodes(15, { prefix: 'SALE0', symbols: 12 })) {
      for (let i = 0; i < code.length; i += 1) {
        for (const symbol of SYMBOLS) {
          const wrong = `${code.slice(0, i)}${symbol}${code.slice(i + 1)}` as Code;
          expect(`${wrong} ${hasCheckCharacter(wrong)}`).toBe(`${wrong} ${symbol === code[i]}`);
        }
        for (let j = i + 1; j < code.length; j += 1) {
          const letters = [...code];
          [letters[i], letters[j]] = [letters[j]!, letters[i]!];
          const wrong = letters.join('') as Code;
          expect(`${wrong} ${hasCheckCharacter(wrong)}`).toBe(`${wrong} ${wrong === code}`);
        }
      }
    }
  });

  test('are long enough that a guess is right once in a thousand million tries, and no longer than that', () => {
    expect([1, 17, 18, 531, 532, 15_000, 400_000, 14_000_000, 15_000_000].map(symbolsFor)).toEqual([
      8, 8, 9, 9, 10, 10, 11, 12, 13,
    ]);
    for (const issued of [1, 1_000, 10_000_000]) {
      const space = (symbols: number) => (30 ** (symbols - 1) * 30) / 37;
      const symbols = symbolsFor(issued);
      expect(issued / space(symbols)).toBeLessThanOrEqual(1 / GUESS_ODDS);
      expect(issued / space(symbols - 1)).toBeGreaterThan(1 / GUESS_ODDS);
    }
  });
});

describe('checkTypo', () => {
  const [code] = drawCodes(1, FORM) as [Code];
  const mistyped = `${code.slice(0, 8)}${code[8] === 'A' ? 'B' : 'A'}${code.slice(9)}` as Code;

  test('detects a mistyped code of a known form', () => {
    expect(checkTypo(mistyped, [{ prefix: '', symbols: 9 }, FORM])).toBe(true);
    expect(checkTypo(code, [FORM])).toBe(false);
  });

  test('accepts a code of another form, because it may be imported', () => {
    expect(checkTypo(mistyped, [])).toBe(false);
    expect(checkTypo(mistyped, [{ prefix: 'SALE', symbols: 11 }])).toBe(false);
    expect(checkTypo(mistyped, [{ prefix: 'MORE', symbols: 12 }])).toBe(false);
  });
});
