// How does the filter of codes grow, and what would a file cost in its place?
//
// Method: the filter of the API, in this process, with 10, 50 and 200 million codes of the product's own generator,
// which are not stored: bytes, time to add and to look up, and false positives among codes that were never made. Then
// the same look-up in a file of the size of the largest filter: 64 bytes at a random place, out of the page cache.
// Last record (2026-11-28, 6952cc9c, load 7.5): megabytes_10m 19.5, add_us_10m 0.68, lookup_us_10m 0.59, false_positives_percent_10m 0.055, megabytes_50m 97.4, add_us_50m 0.83, lookup_us_50m 0.61, false_positives_percent_50m 0.058, megabytes_200m 389.6, add_us_200m 1.42, lookup_us_200m 1.08, false_positives_percent_200m 0.058, file_block_us 1.15
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './environment.mjs';
import { round } from './measure.mjs';

const SIZES = [10_000_000, 50_000_000, 200_000_000];
const LOOKUPS = 2_000_000;
const BATCH = 100_000;
const BLOCK_BYTES = 64;

/**
 * @param {import('./environment.mjs').Environment} _environment
 * @param {(text: string) => void} say
 * @param {string} [root]
 */
export async function run(_environment, say, root = ROOT) {
  /** @type {Record<string, number>} */
  const figures = {};
  let bytes = 0;
  for (const codes of SIZES) {
    const { megabytes, add_us, lookup_us, false_positives_percent } = await measure(codes, root);
    const name = `${codes / 1e6}m`;
    Object.assign(figures, {
      [`megabytes_${name}`]: megabytes,
      [`add_us_${name}`]: add_us,
      [`lookup_us_${name}`]: lookup_us,
      [`false_positives_percent_${name}`]: false_positives_percent,
    });
    bytes = megabytes * 1e6;
    say(`${name}: ${megabytes} MB, ${add_us} µs to add, ${lookup_us} µs to look up, ${false_positives_percent} %`);
  }
  return { ...figures, file_block_us: readBlocks(bytes) };
}

/**
 * @param {number} codes
 * @param {string} root
 */
async function measure(codes, root) {
  /** @type {typeof import('../../api/coupons/scalable-bloom-filter.js')} */
  const { ScalableBloomFilter } = await import(join(root, 'dist/api/coupons/scalable-bloom-filter.js'));
  /** @type {typeof import('../../shared/domain/codes.js')} */
  const { drawCodes, symbolsFor } = await import(join(root, 'dist/shared/domain/codes.js'));
  const symbols = symbolsFor(codes);
  const bloom = new ScalableBloomFilter(codes);
  const drawn = (/** @type {string} */ prefix) => drawCodes(BATCH, { prefix, symbols });
  const add = (/** @type {string} */ code) => bloom.add(code, false);
  let addMs = 0;
  for (let made = 0; made < codes; made += BATCH) addMs += timed(drawn(''), add);
  let through = 0;
  let lookUpMs = 0;
  for (let asked = 0; asked < LOOKUPS; asked += BATCH)
    lookUpMs += timed(drawn('X'), (code) => {
      if (bloom.has(code)) through += 1;
    });
  return {
    megabytes: round(bloom.bytes / 1e6),
    add_us: round((addMs * 1000) / codes, 2),
    lookup_us: round((lookUpMs * 1000) / LOOKUPS, 2),
    false_positives_percent: round((through / LOOKUPS) * 100, 3),
  };
}

/**
 * @param {readonly string[]} codes
 * @param {(code: string) => void} work
 * @returns {number} ms
 */
function timed(codes, work) {
  const began = performance.now();
  for (const code of codes) work(code);
  return performance.now() - began;
}

/**
 * @param {number} bytes
 * @returns {number} µs a block
 */
function readBlocks(bytes) {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-bench-'));
  const file = openSync(join(folder, 'filter'), 'w+');
  try {
    const part = Buffer.alloc(1 << 20, 1);
    for (let at = 0; at < bytes; at += part.length) writeSync(file, part, 0, part.length, at);
    const block = Buffer.alloc(BLOCK_BYTES);
    const places = Array.from({ length: BATCH }, () => Math.floor((Math.random() * bytes) / BLOCK_BYTES) * BLOCK_BYTES);
    const began = performance.now();
    for (const place of places) readSync(file, block, 0, BLOCK_BYTES, place);
    return round(((performance.now() - began) * 1000) / BATCH, 2);
  } finally {
    closeSync(file);
    rmSync(folder, { recursive: true });
  }
}
