import { randomBytes } from 'node:crypto';
import type { Branded } from './brand.js';

/** A code in canonical form, in which it is stored and compared: A–Z and 0–9 only. */
export type Code = Branded<string, 'Code'>;

/** Maximum length of a code as typed. The longest code still fits with a hyphen after each character. */
export const MAX_TYPED_CHARACTERS = 128;
export const MAX_CODE_CHARACTERS = 64;
export const MAX_PREFIX_CHARACTERS = 16;

/**
 * Digits and letters without 0, O, 1, I, L and U, which are easily confused. Byte values below 240 = 8 × 30 map evenly
 * to these 30 symbols.
 */
const ALPHABET = '23456789ABCDEFGHJKMNPQRSTVWXYZ';
const SYMBOLS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ';
/** A prime greater than the number of symbols, so every single wrong character and every transposition is detected. */
const CHECK_MODULUS = 37;
const FAIR_BYTES = 256 - (256 % ALPHABET.length);
/** One guess is right with a probability of at most 1 in this number. */
export const GUESS_ODDS = 1_000_000_000;

export type NormalisedCode = { kind: 'code'; code: Code } | { kind: 'empty' | 'too_long' | 'bad_character' };

const TYPED = /^[A-Za-z0-9\p{Zs}\p{Pd}]*$/u;
const IGNORED = /[\p{Zs}\p{Pd}]+/gu;
const CANONICAL = /^[A-Z0-9]+$/;

/**
 * Converts a typed code to its canonical form: ignores case, spaces and hyphens of any kind. Letters of other scripts
 * are rejected even if they look like A–Z, because no issued code has them.
 */
export function normaliseCode(text: string): NormalisedCode {
  if (text.length > MAX_TYPED_CHARACTERS) return { kind: 'too_long' };
  // Checked before the change to upper case, which turns some foreign letters into A–Z.
  if (!TYPED.test(text)) return { kind: 'bad_character' };
  const code = CANONICAL.test(text) ? text : text.replace(IGNORED, '').toUpperCase();
  if (code.length === 0) return { kind: 'empty' };
  return code.length > MAX_CODE_CHARACTERS ? { kind: 'too_long' } : { kind: 'code', code: code as Code };
}

/** The form of generated codes: a prefix and a number of symbols, of which the last is the check character. */
export type CodeForm = { prefix: string; symbols: number };

/**
 * How many symbols a code needs after the prefix, the check character included, so that guessing is hopeless
 * (GUESS_ODDS).
 * @param issued the number of codes of all campaigns, because a guess that hits any of them succeeds
 */
export function symbolsFor(issued: number): number {
  let random = 1;
  while (guessSpace(random) < GUESS_ODDS * issued) random += 1;
  return random + 1;
}

/** How many codes of one form exist: those whose check character is in the alphabet, 30 of 37. */
function guessSpace(randomSymbols: number): number {
  return (ALPHABET.length ** randomSymbols * ALPHABET.length) / CHECK_MODULUS;
}

/**
 * Draws random codes of one form, each with the same probability. Two may be equal; the caller removes duplicates.
 * @param count codes of one batch; all of them are held in memory
 */
export function drawCodes(count: number, { prefix, symbols }: CodeForm): Code[] {
  const codes: Code[] = [];
  const start = runningSum(prefix, 0);
  // One byte in 16 is not used, and 7 codes of 37 have no valid check character. The next round draws the missing
  // codes.
  while (codes.length < count) {
    const random = randomBytes(Math.min(65_536, Math.ceil((count - codes.length) * symbols * 1.4) + 64));
    drawFrom(random, start, prefix, symbols, count, codes);
  }
  return codes;
}

function drawFrom(random: Buffer, start: number, prefix: string, symbols: number, count: number, codes: Code[]): void {
  let body = '';
  let sum = start;
  for (const byte of random) {
    // The remainder of all 256 byte values would favour the first symbols.
    if (byte >= FAIR_BYTES) continue;
    const symbol = ALPHABET.charAt(byte % ALPHABET.length);
    body += symbol;
    sum = ((sum + SYMBOLS.indexOf(symbol)) * 2) % CHECK_MODULUS;
    if (body.length < symbols - 1) continue;
    const check = SYMBOLS.charAt((CHECK_MODULUS + 1 - sum) % CHECK_MODULUS);
    if (check !== '' && ALPHABET.includes(check)) codes.push((prefix + body + check) as Code);
    if (codes.length === count) return;
    body = '';
    sum = start;
  }
}

/** The running sum of ISO 7064, MOD 37-2: each symbol has twice the weight of the next one. */
function runningSum(text: string, start: number): number {
  let sum = start;
  for (const symbol of text) sum = ((sum + SYMBOLS.indexOf(symbol)) * 2) % CHECK_MODULUS;
  return sum;
}

/**
 * Whether the last character of a code is its correct check character. This is also true for one in 37 codes without a
 * check character.
 */
export function hasCheckCharacter(code: Code): boolean {
  return (runningSum(code.slice(0, -1), 0) + SYMBOLS.indexOf(code.slice(-1))) % CHECK_MODULUS === 1;
}

/**
 * Whether a code has the form of a generated code but a wrong check character, so it was probably mistyped. Imported
 * codes have no check character, so this is meant for codes that were never issued.
 */
export function checkTypo(code: Code, forms: readonly CodeForm[]): boolean {
  const isLike = ({ prefix, symbols }: CodeForm) =>
    code.length === prefix.length + symbols && code.startsWith(prefix) && symbols > 1;
  return forms.some(isLike) && !hasCheckCharacter(code);
}
