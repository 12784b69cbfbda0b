// Installs the locked packages when they are missing, of another lock, or damaged; an interrupted installation counts
// as none. An installation by `npm ci` or `npm install` is accepted if npm's own record agrees with the lock.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runNpm } from './npm.mjs';
import { codeOf, Problem } from './problem.mjs';

const INSTALL_LIMIT_MS = 900_000;

/** @typedef {{ version?: string, integrity?: string, link?: boolean }} LockedPackage */
/**
 * @typedef {Record<string, LockedPackage & { optional?: boolean, os?: string[], cpu?: string[], libc?: string[] }>}
 *   LockedPackages
 */

/**
 * Whether node_modules agrees with package-lock.json.
 * @param {string} root
 * @returns {boolean}
 */
export function isInstalled(root) {
  const installed = readPackages(join(root, 'node_modules/.package-lock.json'));
  if (installed === undefined) return false;
  const whole = Object.keys(installed).every((path) => existsSync(join(root, path, 'package.json')));
  if (!whole) return false;
  return readIfThere(stampPath(root)) === stamp(root) || agrees(root, installed);
}

/**
 * @param {string} root
 * @returns {Promise<void>}
 */
export async function installPackages(root) {
  try {
    await npmInstall(root, ['ci']);
  } catch (error) {
    // npm ci refuses a lock that lacks packages of other platforms, as npm writes it where a registry does not serve
    // them (scripts/complete-lock.mjs repairs that). This platform does not need them, if all locked packages are
    // installed afterwards.
    const isRefusedLock = error instanceof Problem && error.details?.includes('EUSAGE');
    if (!isRefusedLock) throw error;
    await npmInstall(root, ['install', '--no-save']);
    if (!isInstalled(root)) throw error;
  }
  writeFileSync(stampPath(root), stamp(root));
}

/**
 * @param {string} root
 * @param {string[]} command
 */
function npmInstall(root, command) {
  // npm fails with ENOTEMPTY on the partial tree of an interrupted installation, so the tree is removed first.
  rmSync(join(root, 'node_modules'), { recursive: true, force: true, maxRetries: 5 });
  // Named one by one, so that neither NODE_ENV=production nor a setting of the user excludes packages that the build
  // needs.
  const options = [
    '--include=dev',
    '--include=optional',
    '--ignore-scripts',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ];
  return runNpm(root, [...command, ...options], {
    limitMs: INSTALL_LIMIT_MS,
    failure: 'The packages could not be installed',
    remedy:
      'Mend what the lines above say (the network, a proxy, a full disk?) and start again, or see more with: npm ci',
  });
}

/**
 * Whether npm's record of installed packages is what the lock requires on this machine.
 * @param {string} root
 * @param {LockedPackages} installed
 */
function agrees(root, installed) {
  const locked = readPackages(join(root, 'package-lock.json'));
  if (locked === undefined) return false;
  return Object.entries(locked).every(([path, wanted]) => {
    if (path === '') return true;
    const found = installed[path];
    if (found === undefined) return wanted.optional === true && !isForHere(wanted);
    return found.version === wanted.version && found.integrity === wanted.integrity;
  });
}

/** @param {LockedPackages[string]} wanted */
function isForHere({ os, cpu, libc }) {
  // Packages for one libc are checked by the stamp only, because npm detects the libc itself.
  return libc === undefined && allows(os, process.platform) && allows(cpu, process.arch);
}

/**
 * @param {string[] | undefined} list "darwin", or "!win32"
 * @param {string} value
 */
function allows(list, value) {
  if (list === undefined || list.includes('any')) return true;
  return list.includes(value) || (list.every((entry) => entry.startsWith('!')) && !list.includes(`!${value}`));
}

/** @param {string} root */
function stampPath(root) {
  return join(root, 'node_modules/.doorbuster-installed');
}

/** @param {string} root */
function stamp(root) {
  const lock = readIfThere(join(root, 'package-lock.json')) ?? '';
  return `${process.platform}-${process.arch} ${createHash('sha256').update(lock).digest('hex')}\n`;
}

/**
 * @param {string} path
 * @returns {LockedPackages | undefined}
 */
function readPackages(path) {
  try {
    return JSON.parse(readIfThere(path) ?? '').packages;
  } catch {
    return undefined;
  }
}

/** @param {string} path */
function readIfThere(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
