// Finds a browser for the tests of the pages: an installed one, or the distribution's Chromium, unpacked below the
// repository like Redis. Downloads only signed packages of the distribution.
import { existsSync, mkdirSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitForLock } from '../lock.mjs';
import { APT_LIMIT_MS, unpackPackage } from './apt.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const PACKAGE = { name: 'chromium', program: 'usr/lib/chromium/chromium' };
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const MAC = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome';

/**
 * Returns the path of a browser, and installs one if there is none.
 * @returns {Promise<{ path: string } | { missing: string }>} why there is none, in words for the log of the tests
 */
export async function findChromium() {
  const home = join(ROOT, '.engines', 'chromium');
  const present = () => [...onPath(), MAC, join(home, 'chromium')].find((path) => existsSync(path));
  const found = present();
  if (found !== undefined) return { path: found };
  mkdirSync(dirname(home), { recursive: true });
  const release = await waitForLock(`${home}.lock`, { limitMs: APT_LIMIT_MS, say: () => {} });
  try {
    return { path: present() ?? (await unpackPackage(home, PACKAGE)) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { missing: `no Chromium or Chrome here, and none could be got (${why}); install one: apt install chromium` };
  } finally {
    release();
  }
}

function onPath() {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
}
