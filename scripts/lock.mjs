// A lock for one program at a time: a file that names its holder. It is created atomically (link). A holder that died
// without removing it is recognised by pid and start time.
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { codeOf, Problem } from './problem.mjs';
import { identityOf, isRunning } from './process-identity.mjs';
import { pause, until } from './waiting.mjs';

const SETTLE_MS = 50;

/** @typedef {{ pid: number, identity: string }} Holder */

/**
 * Takes the lock, or returns its holder.
 * @param {string} path
 * @returns {Promise<{ taken: true, release: () => void } | { taken: false, holder: Holder }>}
 */
export async function takeLock(path) {
  const own = JSON.stringify({ pid: process.pid, identity: identityOf(process.pid) ?? '' });
  for (;;) {
    if (linkWith(path, own)) {
      const release = () => {
        if (read(path) === own) rmSync(path, { force: true });
      };
      return { taken: true, release };
    }
    const found = read(path);
    const holder = parse(found);
    if (holder !== undefined && isRunning(holder)) return { taken: false, holder };
    if (found !== undefined) removeStale(path, found);
    await pause(SETTLE_MS);
  }
}

/**
 * Waits for the lock and takes it.
 * @param {string} path
 * @param {{ limitMs: number, say: (note: string) => void }} options
 * @returns {Promise<() => void>} gives it back
 */
export async function waitForLock(path, { limitMs, say }) {
  let pid = 0;
  const release = await until(
    async () => {
      const attempt = await takeLock(path);
      if (attempt.taken) return attempt.release;
      pid = attempt.holder.pid;
      say(`waiting for process ${pid}, which is doing the same`);
      return false;
    },
    { limitMs, everyMs: 200 },
  );
  if (release !== false) return release;
  throw new Problem(`Process ${pid} has held ${path} for ${limitMs / 1000} s.`, {
    remedy: 'Wait until it has finished, or end it, and try again.',
  });
}

/**
 * @param {string} path
 * @param {string} content
 */
function linkWith(path, content) {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, content, { mode: 0o644 });
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * Removes a stale lock. Two processes may find the same one: a rename succeeds for one of them, and a process that
 * renamed a fresh lock puts it back.
 * @param {string} path
 * @param {string} stale
 */
function removeStale(path, stale) {
  const aside = `${path}.stale.${process.pid}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return;
    throw error;
  }
  const grabbed = read(aside);
  if (grabbed !== undefined && grabbed !== stale) linkWith(path, grabbed);
  rmSync(aside, { force: true });
}

/** @param {string} path */
function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * @param {string | undefined} text
 * @returns {Holder | undefined}
 */
function parse(text) {
  try {
    const value = JSON.parse(text ?? '');
    return typeof value?.pid === 'number' && typeof value?.identity === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}
