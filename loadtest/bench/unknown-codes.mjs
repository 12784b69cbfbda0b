// How much does a code cost that was never issued?
//
// Method: the filter of the API, in this process, with ten million codes of the product's own generator: bytes, time of
// a look-up of codes that are not in it, and how many of those are false positives. Goal: ≤ 20 MB, ≤ 2 µs, no round
// trip.
// Last record (2026-11-23, 500719d, load 0.4): codes 10000000, megabytes 19.5, lookup_us 0.39, false_positives_percent 0.058, met true
import { join } from 'node:path';
import { ROOT } from './environment.mjs';
import { round } from './measure.mjs';

const CODES = 10_000_000;
const LOOKUPS = 1_000_000;
const BATCH = 100_000;

/**
 * @param {import('./environment.mjs').Environment} _environment
 * @param {(text: string) => void} say
 * @param {string} [root]
 */
export async function run(_environment, say, root = ROOT) {
  /** @type {typeof import('../../api/coupons/scalable-bloom-filter.js')} */
  const { ScalableBloomFilter } = await import(join(root, 'dist/api/coupons/scalable-bloom-filter.js'));
  /** @type {typeof import('../../shared/domain/codes.js')} */
  const { drawCodes, symbolsFor } = await import(join(root, 'dist/shared/domain/codes.js'));
  const symbols = symbolsFor(CODES);
  const bloom = new ScalableBloomFilter(CODES);
  for (let made = 0; made < CODES; made += BATCH)
    for (const code of drawCodes(BATCH, { prefix: '', symbols })) bloom.add(code);
  say('filled');
  const unknown = drawCodes(LOOKUPS, { prefix: 'X', symbols });
  let through = 0;
  const began = performance.now();
  for (const code of unknown) if (bloom.has(code)) through += 1;
  const micros = ((performance.now() - began) * 1000) / LOOKUPS;
  return {
    codes: CODES,
    megabytes: round(bloom.bytes / 1e6),
    lookup_us: round(micros, 2),
    false_positives_percent: round((through / LOOKUPS) * 100, 3),
    goal: '≤ 20 MB, ≤ 2 µs',
    met: bloom.bytes <= 20e6 && micros <= 2,
  };
}
