/** The proof of work that the server may ask for (docs/challenges.md), by nothing that not every engine has. */

type Parameters = {
  algorithm: string;
  nonce: string;
  salt: string;
  cost: number;
  keyPrefix: string;
};

/** Hashes between two breaths of the screen, some milliseconds. */
const SLICE = 8_192;

/** @returns what goes into a request for a challenge; null when the challenge is of another kind */
export async function solveWork(challenge: unknown): Promise<{ challenge_solution: string } | null> {
  const { parameters } = challenge as { parameters?: Parameters };
  if (parameters?.algorithm !== 'SHA-256') return null;
  const { nonce, salt, cost, keyPrefix } = parameters;
  const start = (salt + nonce).match(/../g) ?? [];
  const bytes = Uint8Array.from([...start.map((hex) => Number.parseInt(hex, 16)), 0, 0, 0, 0]);
  const view = new DataView(bytes.buffer);
  for (let counter = 0, hashes = 0; ; counter += 1) {
    view.setUint32(start.length, counter);
    let key = sha256(bytes);
    for (let i = 1; i < cost; i += 1) key = sha256(key);
    const derivedKey = [...key].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    if (derivedKey.startsWith(keyPrefix))
      return { challenge_solution: btoa(JSON.stringify({ challenge, solution: { counter, derivedKey } })) };
    hashes += cost;
    if (hashes < SLICE) continue;
    hashes = 0;
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/** First 32 bits of the fractional parts of roots of the first 64 primes: cube roots for the rounds, square roots to begin with. */
const primes: number[] = [];
for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime)) primes.push(n);
const fraction = (root: number) => ((root % 1) * 2 ** 32) | 0;
const ROUNDS = primes.map((prime) => fraction(Math.cbrt(prime)));
const BEGIN = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

const words = new Int32Array(64);
const block = new DataView(new ArrayBuffer(64));

/** SHA-256 of at most 55 bytes, one block; crypto.subtle is missing in React Native, and asynchronous. */
function sha256(bytes: Uint8Array): Uint8Array {
  const input = new Uint8Array(block.buffer).fill(0);
  input.set(bytes);
  input[bytes.length] = 0x80;
  input[62] = bytes.length >> 5;
  input[63] = bytes.length << 3;
  for (let i = 0; i < 64; i += 1) {
    if (i < 16) {
      words[i] = block.getInt32(i * 4);
      continue;
    }
    const [a, b] = [at(words, i - 15), at(words, i - 2)];
    const [s0, s1] = [turn(a, 7) ^ turn(a, 18) ^ (a >>> 3), turn(b, 17) ^ turn(b, 19) ^ (b >>> 10)];
    words[i] = at(words, i - 16) + s0 + at(words, i - 7) + s1;
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = BEGIN;
  for (let i = 0; i < 64; i += 1) {
    const one =
      (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + at(ROUNDS, i) + at(words, i)) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  const output = new DataView(new ArrayBuffer(32));
  for (const [i, value] of [a, b, c, d, e, f, g, h].entries()) output.setInt32(i * 4, at(BEGIN, i) + value);
  return new Uint8Array(output.buffer);
}

const turn = (word: number, by: number): number => (word >>> by) | (word << (32 - by));
const at = (list: ArrayLike<number>, i: number): number => list[i] as number;
