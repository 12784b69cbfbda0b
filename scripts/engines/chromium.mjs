// Finds a browser for the tests of the pages: an installed one, or one of the distribution, unpacked below the
// repository like Redis. Downloads only signed packages of the distribution. Chromium's headless shell is preferred: it
// draws no window of its own and takes half the CPU time. It has no notifications.
import { existsSync, mkdirSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitForLock } from '../lock.mjs';
import { APT_LIMIT_MS, unpackPackage } from './apt.mjs';

const ENGINES = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), '.engines');
/** The first one that can be had is taken. */
const PACKAGES = [
  { name: 'chromium-headless-shell', program: 'usr/lib/chromium/chromium-headless-shell' },
  { name: 'chromium', program: 'usr/lib/chromium/chromium' },
];
const SHELL = 'chromium-headless-shell';
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const MAC = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome';

/**
 * Returns the path of a browser, and installs one if there is none.
 * @param {{ notifications?: boolean }} [needs] notifications: a whole browser, which can show them
 * @returns {Promise<{ path: string } | { missing: string }>} why there is none, in words for the log of the tests
 */
export async function findChromium({ notifications = false } = {}) {
  const packages = notifications ? PACKAGES.filter(({ name }) => name !== SHELL) : PACKAGES;
  const names = notifications ? NAMES : [SHELL, ...NAMES];
  // Not the second package, which a test with notifications may have unpacked before.
  const present = () =>
    [...onPath(names), MAC, ...packages.slice(0, 1).map(starterOf)].find((path) => existsSync(path));
  const found = present();
  if (found !== undefined) return { path: found };
  mkdirSync(ENGINES, { recursive: true });
  const release = await waitForLock(join(ENGINES, 'chromium.lock'), { limitMs: APT_LIMIT_MS, say: () => {} });
  try {
    return { path: present() ?? (await unpackFirst(packages)) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { missing: `no Chromium or Chrome here, and none could be got (${why}); install one: apt install chromium` };
  } finally {
    release();
  }
}

/**
 * @param {import('./apt.mjs').Package[]} packages
 * @returns {Promise<string>} the path of the browser of the first package that the distribution has
 */
async function unpackFirst([first, ...others]) {
  if (!first) throw new Error('the distribution has none');
  if (existsSync(starterOf(first))) return starterOf(first);
  try {
    return await unpackPackage(join(ENGINES, first.name), first);
  } catch (error) {
    if (others.length === 0) throw error;
    return unpackFirst(others);
  }
}

/** The starter of a package that is unpacked. @param {import('./apt.mjs').Package} package_ */
const starterOf = ({ name }) => join(ENGINES, name, name);

/** @param {string[]} names */
function onPath(names) {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return names.flatMap((name) => folders.map((folder) => join(folder, name)));
}
