// Runs apt with a state of its own, for private copies of the distribution's packages, and moves complete folders into
// place.
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { run } from '../processes.mjs';

export const APT_LIMIT_MS = 300_000;

/** @param {string} apt */
export function aptOptions(apt) {
  const settings = {
    'Dir::Cache': join(apt, 'cache'),
    'Debug::NoLocking': 'true',
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '2',
    'Acquire::http::Timeout': '20',
    'Acquire::https::Timeout': '20',
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
}

/**
 * Moves the finished folder into its place atomically, so that a partial one is never taken for complete.
 * @param {string} draft
 * @param {string} home
 */
export function moveInto(draft, home) {
  rmSync(home, { recursive: true, force: true });
  renameSync(draft, home);
}

/**
 * Removes drafts of attempts that were killed. The caller holds the lock, so no draft is in use.
 * @param {string} home
 */
export function clearHalfDone(home) {
  for (const name of readdirSync(dirname(home))) {
    if (name.startsWith(`${basename(home)}.new-`)) rmSync(join(dirname(home), name), { recursive: true, force: true });
  }
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {{ env?: NodeJS.ProcessEnv }} [options]
 */
export async function mustRun(command, args, options = {}) {
  const { code, output } = await run(command, args, { limitMs: APT_LIMIT_MS, ...options });
  if (code !== 0) throw new Error(`${command} failed: ${output.trim().split('\n').slice(-5).join('\n')}`);
}

/**
 * program: its path in the package · others: packages that it needs beside it
 * @typedef {{ name: string, program: string, others?: string[] }} Package
 */

/**
 * Downloads a package with those of its dependencies that this system lacks, and unpacks them without installing them.
 * @param {string} home where the unpacked files are to lie
 * @param {Package} wanted
 * @returns {Promise<string>} the path of a starter of the program
 */
export async function unpackPackage(home, wanted) {
  clearHalfDone(home);
  const draft = `${home}.new-${process.pid}`;
  const apt = join(draft, 'apt');
  for (const folder of ['lists/partial', 'cache/archives/partial', 'archives']) {
    mkdirSync(join(apt, folder), { recursive: true });
  }
  try {
    const own = ['-o', `Dir::State::lists=${join(apt, 'lists')}`];
    if (!(await download(apt, [], wanted))) {
      // The exit code is no evidence; the list of downloads is.
      await run('apt-get', [...aptOptions(apt), ...own, 'update'], { limitMs: APT_LIMIT_MS });
      if (!(await download(apt, own, wanted))) throw new Error(`apt has no usable ${wanted.name}`);
    }
    for (const archive of readdirSync(join(apt, 'archives')).filter((name) => name.endsWith('.deb'))) {
      await mustRun('dpkg', ['-x', join(apt, 'archives', archive), join(draft, 'root')]);
    }
    rmSync(apt, { recursive: true });
    writeStarter(draft, wanted);
    moveInto(draft, home);
    return join(home, wanted.name);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/**
 * Whether the packages and all of their dependencies that this system lacks were downloaded.
 * @param {string} apt
 * @param {string[]} listOptions
 * @param {Package} package_
 */
async function download(apt, listOptions, { name, others = [] }) {
  const options = [...aptOptions(apt), ...listOptions];
  const limit = { limitMs: APT_LIMIT_MS };
  // Also what the system has installed, perhaps in a version that the others do not fit.
  const install = ['--simulate', '--no-install-recommends', '--reinstall', 'install', name, ...others];
  const plan = await run('apt-get', [...options, ...install], limit);
  const wanted = [...plan.output.matchAll(/^Inst (\S+)/gm)].map((match) => match[1] ?? '');
  if (plan.code !== 0 || ![name, ...others].every((one) => wanted.includes(one))) return false;
  const fetched = await run('apt-get', [...options, 'download', ...wanted], { cwd: join(apt, 'archives'), ...limit });
  return fetched.code === 0;
}

/**
 * Writes a starter that finds the libraries beside it, so that the folder may be moved.
 * @param {string} draft
 * @param {Package} wanted
 */
function writeStarter(draft, { name, program }) {
  const folders = new Set();
  for (const entry of readdirSync(join(draft, 'root'), { recursive: true, encoding: 'utf8' })) {
    if (/\.so(\.\d+)*$/.test(entry)) folders.add(`$here/root/${dirname(entry)}`);
  }
  const script = [
    '#!/bin/sh',
    'here=$(dirname -- "$(readlink -f -- "$0")") || exit 1',
    `export LD_LIBRARY_PATH="${[...folders].join(':')}\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"`,
    `exec "$here/root/${program}" "$@"`,
  ];
  writeFileSync(join(draft, name), `${script.join('\n')}\n`, { mode: 0o755 });
}
