import { randomBytes } from 'node:crypto';
import type { Branded } from './brand.js';

/** A code in the form in which it is stored and compared: A–Z and 0–9 only. */
export type Code = Branded<string, 'Code'>;

/** A code as a user typed it may have so many characters; with every second one a hyphen the longest code still fits. */
export const MAX_TYPED_CHARACTERS = 128;
export const MAX_CODE_CHARACTERS = 64;
export const MAX_PREFIX_CHARACTERS = 16;

/** Digits and letters without 0 O, 1 I L and U, which are read or heard as one another. 240 = 8 × 30 bytes are used evenly. */
const ALPHABET = '23456789ABCDEFGHJKMNPQRSTVWXYZ';
const SYMBOLS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ';
/** Prime, and greater than the number of symbols: that is why no single error and no transposition gets through. */
const CHECK_MODULUS = 37;
const FAIR_BYTES = 256 - (256 % ALPHABET.length);
/** One guess is right with a chance of at most 1 in so many. */
export const GUESS_ODDS = 1_000_000_000;

export type NormalisedCode = { kind: 'code'; code: Code } | { kind: 'empty' | 'too_long' | 'bad_character' };

const TYPED = /^[A-Za-z0-9\p{Zs}\p{Pd}]*$/u;
const IGNORED = /[\p{Zs}\p{Pd}]+/gu;
const CANONICAL = /^[A-Z0-9]+$/;

/**
 * The canonical form of a code as a user typed it: without regard to case, spaces and hyphens of any kind. Letters of
 * other scripts are refused although some look like ours: a code that was issued never has them.
 */
export function normaliseCode(text: string): NormalisedCode {
  if (text.length > MAX_TYPED_CHARACTERS) return { kind: 'too_long' };
  // Before the case is changed: some foreign letters become A–Z by that.
  if (!TYPED.test(text)) return { kind: 'bad_character' };
  const code = CANONICAL.test(text) ? text : text.replace(IGNORED, '').toUpperCase();
  if (code.length === 0) return { kind: 'empty' };
  return code.length > MAX_CODE_CHARACTERS ? { kind: 'too_long' } : { kind: 'code', code: code as Code };
}

/** How generated codes look: a prefix, and then so many symbols of which the last one checks all before it. */
export type CodeForm = { prefix: string; symbols: number };

/**
 * Symbols after the prefix, the check character included, that keep a guess hopeless.
 * @param issued codes there will be, of all campaigns: an attacker is content with any of them
 */
export function symbolsFor(issued: number): number {
  let random = 1;
  while (guessSpace(random) < GUESS_ODDS * issued) random += 1;
  return random + 1;
}

/** Codes of one form: those whose check character is one of ours, 30 of 37. */
function guessSpace(randomSymbols: number): number {
  return (ALPHABET.length ** randomSymbols * ALPHABET.length) / CHECK_MODULUS;
}

/**
 * Draws codes of one form, each as likely as any other. Two may be the same; the insert finds out.
 * @param count of a batch: all of them are in memory
 */
export function drawCodes(count: number, { prefix, symbols }: CodeForm): Code[] {
  const codes: Code[] = [];
  const start = runningSum(prefix, 0);
  // One byte in 16 is not used, and 7 codes of 37 have no check character; what is short is drawn in the next round.
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
    // A remainder of all 256 would favour the first symbols.
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

/** ISO 7064, MOD 37-2: each symbol weighs twice as much as the one after it. */
function runningSum(text: string, start: number): number {
  let sum = start;
  for (const symbol of text) sum = ((sum + SYMBOLS.indexOf(symbol)) * 2) % CHECK_MODULUS;
  return sum;
}

/** Whether the last character of a code is the one that those before it ask for. True of one in 37 that have none. */
export function hasCheckCharacter(code: Code): boolean {
  return (runningSum(code.slice(0, -1), 0) + SYMBOLS.indexOf(code.slice(-1))) % CHECK_MODULUS === 1;
}

/**
 * Whether a code has the form of generated ones and cannot be one of them: one character is wrong, or two stand in each
 * other's place. Imported codes carry no check character, so this is for codes that are not known otherwise.
 */
export function checkTypo(code: Code, forms: readonly CodeForm[]): boolean {
  const isLike = ({ prefix, symbols }: CodeForm) =>
    code.length === prefix.length + symbols && code.startsWith(prefix) && symbols > 1;
  return forms.some(isLike) && !hasCheckCharacter(code);
}
