// Chooses the user for Postgres, which refuses to run as root. Under root it runs as a user without rights. That user
// may be unable to enter the folders above the checkout (/root and folders of `mktemp -d` are closed to others). Only
// then the process gets the one capability that opens them.
import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { messageOf, Problem } from '../problem.mjs';
import { hasSetpriv, run } from '../processes.mjs';

/** @typedef {import('../processes.mjs').User} User */

/**
 * Returns the user that Postgres runs as; undefined means the current user.
 * @param {string} program one of its programs
 * @param {string} directory its data; they stay with the user they belong to
 * @returns {Promise<User | undefined>}
 */
export async function postgresUser(program, directory) {
  if (process.getuid?.() !== 0) return undefined;
  const parent = dirname(directory);
  const user = ownerOf(directory) ?? lookUp('postgres') ?? lookUp('nobody');
  if (user === undefined) {
    throw new Problem('Postgres does not run as root, and this system has neither a user "postgres" nor "nobody".', {
      remedy: 'Run the command as an ordinary user, or point DATABASE_URL at a running Postgres.',
    });
  }
  /** @type {string[]} */
  const refused = [];
  for (const overrideAccess of hasSetpriv() ? [false, true] : [false]) {
    const candidate = { ...user, overrideAccess };
    const why = await whyUnable(candidate, program, parent);
    if (why === undefined) return candidate;
    refused.push(why);
  }
  throw new Problem(`Postgres does not run as root, and another user may not enter ${parent} or ${program}.`, {
    details: refused.join('\n'),
    remedy: hasSetpriv()
      ? 'Run the command as an ordinary user, or move the checkout out of folders closed to others (/root is one).'
      : 'Install setpriv (package util-linux), run the command as an ordinary user, or move the checkout out of folders closed to others (/root is one).',
  });
}

/**
 * @param {User} user
 * @param {string} program
 * @param {string} parent
 */
async function whyUnable(user, program, parent) {
  try {
    const { code, output } = await run('/bin/sh', ['-c', '"$0" --version && cd "$1"', program, parent], {
      as: user,
      cwd: '/',
    });
    return code === 0 ? undefined : output.trim();
  } catch (error) {
    return messageOf(error);
  }
}

/** @param {string} directory */
function ownerOf(directory) {
  const { uid, gid } = statSync(directory, { throwIfNoEntry: false }) ?? { uid: 0, gid: 0 };
  return uid === 0 ? undefined : { uid, gid };
}

/** @param {string} name */
function lookUp(name) {
  const entry = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((line) => line.startsWith(`${name}:`));
  const [, , uid, gid] = entry?.split(':') ?? [];
  // macOS has the ids -2 for the user `nobody`.
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 };
}
