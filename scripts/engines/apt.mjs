// Runs apt with a state of its own, for private copies of the distribution's packages, and moves complete folders into
// place.
import { readdirSync, renameSync, rmSync } from 'node:fs';
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
