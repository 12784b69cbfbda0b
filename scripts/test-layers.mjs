// The two layers of tests. `npm test` runs the short one. Files whose names end in `.long.test.ts` are the long one:
// `npm test -- --daily` runs a share of them too, which changes with the date, and `npm test -- --all` runs them all.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

const DAY_MS = 86_400_000;
/** So many days reach every file of the long layer. */
const SHARES = 4;

/**
 * @param {string} root the project's folder
 * @param {string} [under] a folder of test/; all without it
 * @returns {string[]} files of tests, by their paths from `root`
 */
export function testFiles(root, under = '') {
  const names = readdirSync(join(root, 'test', under), { recursive: true, encoding: 'utf8' });
  const own = names.filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules'));
  return own.sort().map((name) => join('test', under, name));
}

export const isLong = (/** @type {string} */ file) => file.endsWith('.long.test.ts');

/**
 * Returns the files of the long layer that are not of the share of a day.
 * @param {string[]} files
 * @param {number} atMs milliseconds since the epoch
 */
export function leftOutOn(files, atMs) {
  const day = Math.floor(atMs / DAY_MS);
  return files.filter(isLong).filter((_, i) => (i + day) % SHARES !== 0);
}
