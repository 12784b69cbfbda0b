// Finds a browser for the tests of the pages: an installed one, or the distribution's Chromium, unpacked below the
// repository like Redis. Downloads only signed packages of the distribution.
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitForLock } from '../lock.mjs';
import { run } from '../processes.mjs';
import { APT_LIMIT_MS, aptOptions, clearHalfDone, moveInto, mustRun } from './apt.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
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
    return { path: present() ?? (await unpack(home)) };
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

/** @param {string} home */
async function unpack(home) {
  clearHalfDone(home);
  const draft = `${home}.new-${process.pid}`;
  const apt = join(draft, 'apt');
  for (const folder of ['lists/partial', 'cache/archives/partial', 'archives']) {
    mkdirSync(join(apt, folder), { recursive: true });
  }
  try {
    const own = ['-o', `Dir::State::lists=${join(apt, 'lists')}`];
    if (!(await download(apt, []))) {
      // The exit code is no evidence; the list of downloads is.
      await run('apt-get', [...aptOptions(apt), ...own, 'update'], { limitMs: APT_LIMIT_MS });
      if (!(await download(apt, own))) throw new Error('apt has no usable chromium');
    }
    for (const archive of readdirSync(join(apt, 'archives')).filter((name) => name.endsWith('.deb'))) {
      await mustRun('dpkg', ['-x', join(apt, 'archives', archive), join(draft, 'root')]);
    }
    rmSync(apt, { recursive: true });
    writeStarter(draft);
    moveInto(draft, home);
    return join(home, 'chromium');
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/**
 * Whether Chromium and all of its packages that this system lacks were downloaded.
 * @param {string} apt
 * @param {string[]} listOptions
 */
async function download(apt, listOptions) {
  const options = [...aptOptions(apt), ...listOptions];
  const limit = { limitMs: APT_LIMIT_MS };
  const plan = await run(
    'apt-get',
    [...options, '--simulate', '--no-install-recommends', 'install', 'chromium'],
    limit,
  );
  const wanted = [...plan.output.matchAll(/^Inst (\S+)/gm)].map((match) => match[1] ?? '');
  if (plan.code !== 0 || !wanted.includes('chromium')) return false;
  const fetched = await run('apt-get', [...options, 'download', ...wanted], { cwd: join(apt, 'archives'), ...limit });
  return fetched.code === 0;
}

/**
 * Writes a starter that finds the libraries beside it, so that the folder may be moved.
 * @param {string} draft
 */
function writeStarter(draft) {
  const folders = new Set();
  for (const entry of readdirSync(join(draft, 'root'), { recursive: true, encoding: 'utf8' })) {
    if (/\.so(\.\d+)*$/.test(entry)) folders.add(`$here/root/${dirname(entry)}`);
  }
  const script = [
    '#!/bin/sh',
    'here=$(dirname -- "$(readlink -f -- "$0")") || exit 1',
    `export LD_LIBRARY_PATH="${[...folders].join(':')}\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"`,
    'exec "$here/root/usr/lib/chromium/chromium" "$@"',
  ];
  writeFileSync(join(draft, 'chromium'), `${script.join('\n')}\n`, { mode: 0o755 });
}
